package holdfast_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
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
