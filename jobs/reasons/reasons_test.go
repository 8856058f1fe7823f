package reasons

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestAllListsAll reads the constants from their file, because users can filter only by reasons
// that All returns.
func TestAllListsAll(t *testing.T) {
	source, err := os.ReadFile("reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^\t\w+ +Reason = "(\w+)"`).FindAllSubmatch(source, -1)
	if len(declared) == 0 || len(declared) != len(All()) {
		t.Errorf("%d reasons are declared, %d listed", len(declared), len(All()))
	}
	for _, match := range declared {
		if !slices.Contains(All(), Reason(match[1])) {
			t.Errorf("%s is not listed", match[1])
		}
	}
}
