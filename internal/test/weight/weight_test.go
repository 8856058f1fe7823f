package weight

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

const module = "github.com/holdfast-dev/holdfast"

// testOnly are the direct requirements that the binary scheduler does not link, with the packages
// that need them. Their tests are part of packages that users import, so they cannot be in a module
// of their own.
var testOnly = map[string]string{
	"github.com/anishathalye/porcupine":        "locking, jobs: histories of locks are linearizable",
	"github.com/chromedp/cdproto":              "admin: the page in Chromium",
	"github.com/chromedp/chromedp":             "admin: the page in Chromium",
	"github.com/go-sql-driver/mysql":           "jobs/fence: the fence in MariaDB",
	"github.com/google/go-cmp":                 "differences of values",
	"github.com/santhosh-tekuri/jsonschema/v6": "admin: responses match openapi.json",
	"pgregory.net/rapid":                       "locking, retry: properties of random values",
}

// command runs the go command for a Linux program without cgo, and returns the lines of its output.
func command(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// linkedModules returns the sorted paths of the modules that a program links, without the standard
// library and this module.
func linkedModules(t *testing.T, program string) []string {
	t.Helper()
	modules := map[string]bool{}
	for _, path := range command(t, "list", "-deps", "-f",
		"{{with .Module}}{{.Path}}{{end}}", program) {
		modules[path] = true
	}
	delete(modules, "")
	if !modules[module] {
		t.Fatalf("got the modules %q, want %s among them", slices.Collect(maps.Keys(modules)),
			module)
	}
	delete(modules, module)
	return slices.Sorted(maps.Keys(modules))
}

// TestModulesOfAProgram compares the modules that a program with PostgreSQL links with
// testdata/postgres.txt.
func TestModulesOfAProgram(t *testing.T) {
	got := strings.Join(linkedModules(t, module+"/internal/test/weight/postgres"), "\n") + "\n"
	file := filepath.Join("testdata", "postgres.txt")
	if os.Getenv("HOLDFAST_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("modules that a program links (-want +got):\n%s"+
			"If that is intended, run the test with HOLDFAST_UPDATE=1.", diff)
	}
}

// TestNoTemplatesWithoutThePage checks that a program without the page links no templates. They
// call methods by name, so the linker keeps all methods of all types that the program uses: several
// megabytes.
func TestNoTemplatesWithoutThePage(t *testing.T) {
	for _, path := range command(t, "list", "-deps", module+"/internal/test/weight/postgres") {
		if path == "text/template" || path == "html/template" || path == module+"/admin" {
			t.Errorf("the program links %s", path)
		}
	}
}

// TestRequirements checks that the scheduler links each direct requirement of go.mod, except for
// those of testOnly. Libraries that only tests need are otherwise in nested modules.
func TestRequirements(t *testing.T) {
	linked := linkedModules(t, module+"/cmd/scheduler")
	var unlinked []string
	for _, path := range command(t, "list", "-m", "-f",
		"{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all") {
		if path != "" && !slices.Contains(linked, path) {
			unlinked = append(unlinked, path)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(testOnly)), unlinked); diff != "" {
		t.Errorf("direct requirements that the scheduler does not link (-want +got):\n%s", diff)
	}
}

// maxSize is the maximum size of the stripped program, in bytes.
const maxSize = 20 << 20

// TestSize builds the program with PostgreSQL and logs its size.
func TestSize(t *testing.T) {
	soak.Only(t)
	size := func(flags string) int64 {
		binary := filepath.Join(t.TempDir(), "program")
		command(t, "build", "-ldflags", flags, "-o", binary, "./postgres")
		info, err := os.Stat(binary)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	whole, stripped := size(""), size("-s -w")
	t.Logf("%.1f MB, stripped %.1f MB", float64(whole)/1e6, float64(stripped)/1e6)
	if stripped > maxSize {
		t.Errorf("got %d bytes, want at most %d", stripped, maxSize)
	}
}
