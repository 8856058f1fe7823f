package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// reads are the methods of the store that change nothing. Watch changes no state of the cluster: it
// asks the replica of a run for its output.
var reads = []string{"Audit", "AuditChain", "AuditLinks", "Backfill", "BackfillTaken",
	"Backfills", "Close", "ClusterID", "ControlState", "CountFiltered", "CountRuns",
	"Drift", "EndCounts", "EndedRuns", "Firing", "FiringRuns", "Generations", "Groups", "Histogram", "Job",
	"JobEndCounts", "JobStates",
	"JobRequests", "Jobs", "ListJobs", "Listen", "LiveSessions", "Locks", "Marks", "Now",
	"OpenBackfills", "OpenFirings", "Outcomes", "Pauses", "PreviousSuccess", "Replicas", "Resources",
	"Restarts",
	"Run", "RunAttempt", "RunAttempts", "RunIntervals", "Runs", "RunsBetween", "Saved",
	"Typical", "UndeliveredHooks", "UnsealedAge", "Versions", "WaitSummaries", "Watch"}

// parsed returns the source files of a folder, without tests.
func parsed(t *testing.T, files *token.FileSet, folder string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// changes returns the methods of the store's interfaces that are not in reads.
func changes(t *testing.T, files *token.FileSet) map[string]bool {
	t.Helper()
	methods := map[string]bool{}
	for _, f := range parsed(t, files, "../../jobs/storage") {
		ast.Inspect(f, func(n ast.Node) bool {
			i, is := n.(*ast.InterfaceType)
			if !is {
				return true
			}
			for _, method := range i.Methods.List {
				for _, name := range method.Names {
					if !slices.Contains(reads, name.Name) {
						methods[name.Name] = true
					}
				}
			}
			return true
		})
	}
	delete(methods, "Open") // the replicas of run and demo have a method of this name
	return methods
}

// innocent returns the names in a file whose methods are not those of a store: imported packages,
// and parameters and fields of the types cluster and *operations.Operations, which check
// permissions and params.
func innocent(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, imported := range f.Imports {
		path := strings.Trim(imported.Path.Value, `"`)
		names[path[strings.LastIndex(path, "/")+1:]] = true
	}
	ast.Inspect(f, func(n ast.Node) bool {
		field, is := n.(*ast.Field)
		if !is {
			return true
		}
		if !checks(field.Type) {
			return true
		}
		for _, name := range field.Names {
			names[name.Name] = true
		}
		return true
	})
	return names
}

// checks reports whether a type is cluster or *operations.Operations.
func checks(of ast.Expr) bool {
	if name, is := of.(*ast.Ident); is {
		return name.Name == "cluster"
	}
	pointer, is := of.(*ast.StarExpr)
	if !is {
		return false
	}
	selector, is := pointer.X.(*ast.SelectorExpr)
	return is && selector.Sel.Name == "Operations"
}

// findChanges returns the positions in a file that name a changing method of something that is
// neither a package nor operations.
func findChanges(files *token.FileSet, f *ast.File, methods map[string]bool) []string {
	var found []string
	skip := innocent(f)
	ast.Inspect(f, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		// a method value as an argument counts too
		for _, e := range append([]ast.Expr{call.Fun}, call.Args...) {
			s, is := e.(*ast.SelectorExpr)
			if !is || !methods[s.Sel.Name] {
				continue
			}
			if !skip[nameOf(s.X)] {
				found = append(found, files.Position(s.Pos()).String()+": "+s.Sel.Name)
			}
		}
		return true
	})
	return found
}

// nameOf returns the name of a variable or of a field, or "".
func nameOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// Commands change the cluster only through operations.Operations, which checks params, permissions
// and references. No command calls a changing method of the store itself, apart from Prune: it
// deletes what replicas delete without an operator.
func TestCommandsChangeOnlyByOperations(t *testing.T) {
	files := token.NewFileSet()
	methods := changes(t, files)
	for _, name := range []string{"Pause", "Trigger", "PutSpec", "DeliverAgain", "Finish",
		"SealAudit"} {
		if !methods[name] {
			t.Errorf("%s is not among the changing methods of the store", name)
		}
	}
	delete(methods, "Prune")
	byCluster := 0
	for _, f := range parsed(t, files, ".") {
		for _, found := range findChanges(files, f, methods) {
			t.Errorf("%s of a store: use operations.Operations", found)
		}
		for name := range innocent(f) {
			if name == "in" {
				byCluster++
			}
		}
	}
	if byCluster < 8 {
		t.Errorf("found %d files that use a cluster, want at least 8", byCluster)
	}
	const planted = `package cli
import "os"
func a(ops *operations.Operations, in cluster, store app.Storage) {
	os.Open("x")
	ops.Pause(1)
	in.Pause(1)
	store.Runs(1)
	store.Pause(1)
	a.store.Trigger(1)
	later(store.Cancel)
	store.Outbox.DeliverAgain(1)
}`
	f, err := parser.ParseFile(files, "planted.go", planted, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := findChanges(files, f, methods); len(found) != 4 {
		t.Errorf("planted calls: found %q, want 4", found)
	}
}
