package plural_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/plural"
)

func TestOf(t *testing.T) {
	for n, want := range map[int]string{0: "0 jobs", 1: "1 job", 2: "2 jobs", 11: "11 jobs",
		-1: "-1 jobs", 25_884: "25884 jobs"} {
		if got := plural.Of(n, "job", "jobs"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestWord(t *testing.T) {
	for n, want := range map[int]string{0: "have", 1: "has", 2: "have"} {
		if got := plural.Word(n, "has", "have"); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
