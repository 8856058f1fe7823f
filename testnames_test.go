package holdfast_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamesOfBrowserTests checks that `make browser` finds all tests whose names `make test` skips.
func TestNamesOfBrowserTests(t *testing.T) {
	files, found := token.NewFileSet(), 0
	for _, file := range parseModule(t, files) {
		for _, declared := range file.Decls {
			f, ok := declared.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") ||
				!strings.HasSuffix(f.Name.Name, "InABrowser") {
				continue
			}
			found++
			at := files.Position(f.Pos())
			if filepath.Base(filepath.Dir(at.Filename)) != "admin" {
				t.Errorf("%s: %s is not in ./admin", at, f.Name.Name)
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d tests, want at least 30", found)
	}
}
