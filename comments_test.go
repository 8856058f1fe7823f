package holdfast_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// reference matches a name of another package in a comment, such as jobs.Run or jobs.Run.Params.
var reference = regexp.MustCompile(`(?:^|[^\w./-])([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)

// implements matches the comment of a method that belongs to an interface of another package.
var implements = regexp.MustCompile(`^\w+ implements ([a-z]\w*)\.([A-Z]\w*)`)

// declarations are the names that the packages of one name declare. The value of a type holds its
// fields and methods.
type declarations map[string]map[string]bool

// TestCommentsNameWhatExists checks that each name of a package of this module in a comment is
// declared, and that a method that "implements" an interface is one of its methods.
func TestCommentsNameWhatExists(t *testing.T) {
	files := token.NewFileSet()
	parsed := parseModule(t, files)
	packages := map[string]declarations{}
	for _, file := range parsed {
		name := strings.TrimSuffix(file.Name.Name, "_test")
		if packages[name] == nil {
			packages[name] = declarations{}
		}
		packages[name].add(file)
	}
	checked := 0
	for _, file := range parsed {
		checked += checkReferences(t, files, file, packages)
		checkImplements(t, files, file, packages)
	}
	if checked < 200 {
		t.Errorf("got %d names in comments, want at least 200", checked)
	}
}

// checkReferences checks the names in the comments of a file. It returns how many it found.
func checkReferences(t *testing.T, files *token.FileSet, file *ast.File,
	packages map[string]declarations) int {
	t.Helper()
	checked := 0
	for _, group := range file.Comments {
		for _, found := range reference.FindAllStringSubmatch(group.Text(), -1) {
			declared, ours := packages[found[1]]
			if !ours {
				continue
			}
			checked++
			if !declared.has(found[2], found[3]) {
				t.Errorf("%s: the comment names %s, which does not exist",
					files.Position(group.Pos()), strings.TrimLeft(found[0], " \n\t([*&\""))
			}
		}
	}
	return checked
}

// checkImplements checks the comments "M implements pkg.I" of the methods of a file.
func checkImplements(t *testing.T, files *token.FileSet, file *ast.File,
	packages map[string]declarations) {
	t.Helper()
	for _, declared := range file.Decls {
		method, _ := declared.(*ast.FuncDecl)
		if method == nil || method.Recv == nil {
			continue
		}
		found := implements.FindStringSubmatch(method.Doc.Text())
		if found != nil && packages[found[1]] != nil &&
			!packages[found[1]].has(found[2], method.Name.Name) {
			t.Errorf("%s: %s.%s has no method %s", files.Position(method.Pos()), found[1],
				found[2], method.Name.Name)
		}
	}
}

// parseModule returns the syntax of all Go files of the module.
func parseModule(t *testing.T, files *token.FileSet) []*ast.File {
	t.Helper()
	var parsed []*ast.File
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != "." {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil,
			parser.ParseComments|parser.SkipObjectResolution)
		parsed = append(parsed, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// add adds the declarations of a file.
func (d declarations) add(file *ast.File) {
	for _, declared := range file.Decls {
		switch declared := declared.(type) {
		case *ast.FuncDecl:
			if declared.Recv == nil {
				d.members(declared.Name.Name)
			} else {
				d.members(receiver(declared.Recv.List[0].Type))[declared.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				d.addSpec(spec)
			}
		}
	}
}

// addSpec adds the constants, variables or type of a declaration.
func (d declarations) addSpec(spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			d.members(name.Name)
		}
	case *ast.TypeSpec:
		members := d.members(spec.Name.Name)
		var fields *ast.FieldList
		switch of := spec.Type.(type) {
		case *ast.StructType:
			fields = of.Fields
		case *ast.InterfaceType:
			fields = of.Methods
		default:
			return
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				members[name.Name] = true
			}
		}
	}
}

// members returns the fields and methods of a declared name, and adds the name if it is new.
func (d declarations) members(name string) map[string]bool {
	if d[name] == nil {
		d[name] = map[string]bool{}
	}
	return d[name]
}

// has reports whether the name is declared and has the member. An empty member always exists.
func (d declarations) has(name, member string) bool {
	members, declared := d[name]
	return declared && (member == "" || members[member])
}

// receiver returns the name of the type of a method.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}
