package holdfast_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestSecurityDocumentNamesTests checks that the tests in docs/security.md exist.
func TestSecurityDocumentNamesTests(t *testing.T) {
	text, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range function.FindAllSubmatch(source, -1) {
			declared[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(text, -1)
	if len(named) < 15 {
		t.Errorf("got %d tests, want at least 15", len(named))
	}
	for _, match := range named {
		if !declared[string(match[1])] {
			t.Errorf("docs/security.md names %s, which does not exist", match[1])
		}
	}
}

// TestDocumentedPrograms checks that the programs in the documents are the examples of this
// package, which compile.
func TestDocumentedPrograms(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```$")
	for path, examples := range map[string][]string{
		"README.md":          {"example_test.go"},
		"docs/jobs-in-go.md": {"example_test.go", "example_replica_test.go"},
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		programs := block.FindAllSubmatch(text, -1)
		if len(programs) != len(examples) {
			t.Fatalf("%s: got %d programs, want %d", path, len(programs), len(examples))
		}
		for i, example := range examples {
			want, err := os.ReadFile(example)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.NewReplacer("package main", "package holdfast_test",
				"func main()", "func Example()").Replace(string(programs[i][1]))
			compiled := strings.Replace(string(want), "Example_replica()", "Example()", 1)
			if got != compiled {
				t.Errorf("%s: got\n%s\nwant the contents of %s\n%s", path, got, example, want)
			}
		}
	}
}

// TestTextsStateLimits checks that texts with a limit in words agree with its constant. Each row is
// a text to change with the constant.
func TestTextsStateLimits(t *testing.T) {
	recoveries, absence := storage.MaxRecoveries == 3, storage.MaxAbsence == time.Hour
	for _, limit := range []struct {
		path, text string
		agrees     bool
	}{
		{"configs/reference.yaml", "at most three times", recoveries},
		{"docs/guarantees.md", "at most three times", recoveries},
		{"docs/coming-from-quartz.md", "at most three times", recoveries},
		{"internal/engine/doc.go", "at most three times", recoveries},
		{"job.go", "three times at most", recoveries},
		{"jobs/storage/upkeep.go", "after 3 recoveries", recoveries},
		{"jobs/storage/upkeep.go", "no replica had its job for an hour", absence},
		{"admin/internal/words/words.go", "no replica has known its job for an hour", absence},
	} {
		text, err := os.ReadFile(limit.path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), limit.text) {
			t.Errorf("%s: got no text %q; correct this test", limit.path, limit.text)
		}
		if !limit.agrees {
			t.Errorf("%s: got %q, want the value of the constant", limit.path, limit.text)
		}
	}
}

// TestArchitectureListsTables checks that docs/architecture.md lists every table of PostgreSQL.
func TestArchitectureListsTables(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("(?m)^\\| `[^|]*\\|") // the first cell of a row
	listed := strings.Join(names.FindAllString(string(text), -1), "")
	migrations, err := filepath.Glob("jobs/postgres/migrations/*.sql")
	if err != nil || len(migrations) == 0 {
		t.Fatalf("got the migrations %q, %v", migrations, err)
	}
	created := regexp.MustCompile(`(?m)^CREATE TABLE holdfast\.(\w+) `)
	for _, path := range migrations {
		migration, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tables := created.FindAllSubmatch(migration, -1)
		if len(tables) == 0 {
			t.Errorf("%s creates no tables", path)
		}
		for _, table := range tables {
			if !strings.Contains(listed, "`"+string(table[1])+"`") {
				t.Errorf("docs/architecture.md does not list the table %s", table[1])
			}
		}
	}
}
