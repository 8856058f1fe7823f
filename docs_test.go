package holdfast_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedProgram checks that the program in the documents is the one in example_test.go,
// which compiles.
func TestDocumentedProgram(t *testing.T) {
	want, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"README.md", "docs/jobs-in-go.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		program := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindSubmatch(text)
		if program == nil {
			t.Fatalf("%s: got no program", path)
		}
		got := strings.NewReplacer(
			"package main", "package holdfast_test", "func main()", "func Example()",
		).Replace(string(program[1]))
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant the contents of example_test.go\n%s", path, got, want)
		}
	}
}
