package admin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestMarkupIsConstant checks the calls of Add and AddIf of markup.Builder, which do not escape
// their markup: it must be constants of the program.
func TestMarkupIsConstant(t *testing.T) {
	for _, name := range filesWithMarkup(t) {
		positions := token.NewFileSet()
		checked := 0
		for _, call := range markupCalls(t, positions, name) {
			markup := everySecond(call.Args)
			switch methodOf(call) {
			case "AddIf":
				markup = call.Args[1:]
			case "AddText":
				markup = nil
			}
			for _, part := range markup {
				if checked++; !isConstant(part) {
					t.Errorf("%s: markup that is not constant", positions.Position(part.Pos()))
				}
			}
		}
		if checked == 0 {
			t.Errorf("%s: no call found", name)
		}
	}
}

// filesWithMarkup returns the files whose code builds parts of pages.
func filesWithMarkup(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*.go", "internal/pages/*.go", "internal/charts/*.go",
		"internal/grid/*.go"} {
		for _, name := range globbed(t, pattern) {
			if !strings.HasSuffix(name, "_test.go") &&
				len(markupCalls(t, token.NewFileSet(), name)) > 0 {
				files = append(files, name)
			}
		}
	}
	if len(files) < 9 {
		t.Fatalf("only the files %q build parts of pages", files)
	}
	return files
}

// markupCalls returns the calls of Add, AddIf and AddText on the variables to which the file adds a
// tag.
func markupCalls(t *testing.T, positions *token.FileSet, name string) (calls []*ast.CallExpr) {
	t.Helper()
	file, err := parser.ParseFile(positions, name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []*ast.CallExpr
	builders := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		call, isCall := node.(*ast.CallExpr)
		if !isCall {
			return true
		}
		if !slices.Contains([]string{"Add", "AddIf", "AddText"}, methodOf(call)) {
			return true
		}
		all = append(all, call)
		for _, part := range call.Args {
			if literal, is := part.(*ast.BasicLit); is && strings.ContainsAny(literal.Value, "<>") {
				builders[builderOf(call)] = true
			}
		}
		return true
	})
	for _, call := range all {
		if builders[builderOf(call)] {
			calls = append(calls, call)
		}
	}
	return calls
}

// methodOf returns the name of the method that is called, or "".
func methodOf(call *ast.CallExpr) string {
	if method, is := call.Fun.(*ast.SelectorExpr); is {
		return method.Sel.Name
	}
	return ""
}

// builderOf returns the variable whose method is called, or "".
func builderOf(call *ast.CallExpr) string {
	if variable, is := call.Fun.(*ast.SelectorExpr).X.(*ast.Ident); is {
		return variable.Name
	}
	return ""
}

func everySecond(parts []ast.Expr) (some []ast.Expr) {
	for i := 0; i < len(parts); i += 2 {
		some = append(some, parts[i])
	}
	return some
}

// isConstant reports whether the expression is a literal, or a sum of literals.
func isConstant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.BinaryExpr:
		return isConstant(e.X) && isConstant(e.Y)
	}
	return false
}
