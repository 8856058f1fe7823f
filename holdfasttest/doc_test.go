package holdfasttest_test

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedExample checks that the example of the package comment is rollup_test.go, whose
// tests run.
func TestDocumentedExample(t *testing.T) {
	comment, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("rollup_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(comment)) {
		if code, ok := strings.CutPrefix(line, "//\t"); ok {
			got.WriteString(code)
		} else if line == "//\n" && got.Len() > 0 {
			got.WriteByte('\n')
		} else if got.Len() > 0 {
			break
		}
	}
	want := strings.Replace(string(file), "package holdfasttest_test", "package sales", 1)
	if strings.TrimSpace(got.String()) != strings.TrimSpace(want) {
		t.Errorf("got the example\n%s\nwant\n%s", got.String(), want)
	}
}
