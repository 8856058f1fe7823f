package jobs

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestReasonsListsAll reads the constants from their file: one that is not in
// the list could not be asked for.
func TestReasonsListsAll(t *testing.T) {
	source, err := os.ReadFile("reason.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^\tReason\w+ +Reason = "(\w+)"`).FindAllSubmatch(source, -1)
	if len(declared) == 0 || len(declared) != len(Reasons()) {
		t.Errorf("%d reasons are declared, %d listed", len(declared), len(Reasons()))
	}
	for _, match := range declared {
		if !slices.Contains(Reasons(), Reason(match[1])) {
			t.Errorf("%s is not listed", match[1])
		}
	}
}
