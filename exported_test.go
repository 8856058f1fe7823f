package holdfast_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxExported is the maximum number of exported names of package jobs. People who write jobs read
// all of them, so the list must stay short.
const maxExported = 60

// TestPackageJobsIsSmall counts the exported constants, variables, functions and types of package
// jobs. Methods and fields do not count.
func TestPackageJobsIsSmall(t *testing.T) {
	paths, err := filepath.Glob("jobs/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	jobs, err := doc.NewFromFiles(files, parsed, "github.com/holdfast-dev/holdfast/jobs")
	if err != nil {
		t.Fatal(err)
	}
	names := exportedNames(jobs)
	if !slices.Contains(names, "Handle") || !slices.Contains(names, "Waiting") {
		t.Fatalf("got the names %q, want Handle and Waiting among them", names)
	}
	if len(names) > maxExported {
		t.Errorf("got %d exported names in package jobs, want at most %d: %s", len(names),
			maxExported, strings.Join(names, ", "))
	}
}

// exportedNames returns the exported names of the package, sorted.
func exportedNames(p *doc.Package) []string {
	var names []string
	add := func(values []*doc.Value, functions []*doc.Func) {
		for _, value := range values {
			names = append(names, value.Names...)
		}
		for _, function := range functions {
			names = append(names, function.Name)
		}
	}
	add(slices.Concat(p.Consts, p.Vars), p.Funcs)
	for _, declared := range p.Types {
		names = append(names, declared.Name)
		add(slices.Concat(declared.Consts, declared.Vars), declared.Funcs)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !token.IsExported(name) })
	slices.Sort(names)
	return names
}

// maxMethods is the maximum number of methods of a type of the admin page: decision 49.
const maxMethods = 25

// TestTypesOfAdminAreSmall counts the methods of each type of package admin and of those below it.
func TestTypesOfAdminAreSmall(t *testing.T) {
	counts := map[string]int{}
	err := filepath.WalkDir("admin", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, declared := range file.Decls {
			f, ok := declared.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			of := f.Recv.List[0].Type
			if pointer, ok := of.(*ast.StarExpr); ok {
				of = pointer.X
			}
			if name, ok := of.(*ast.Ident); ok {
				counts[filepath.Dir(path)+"."+name.Name]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if counts["admin/internal/cluster.Overview"] == 0 {
		t.Error("got no methods of cluster.Overview, want some")
	}
	for name, n := range counts {
		if n > maxMethods {
			t.Errorf("got %d methods of %s, want at most %d", n, name, maxMethods)
		}
	}
}

// TestVisitorShowsItsFields checks that go doc shows the fields of the type that every program with
// a sign-in of its own fills in. It shows none of an alias.
func TestVisitorShowsItsFields(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "admin/mount.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	shown := false
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == "Visitor" {
			_, shown = spec.Type.(*ast.StructType)
		}
		return true
	})
	if !shown {
		t.Error("admin.Visitor is no struct in admin/mount.go")
	}
}
