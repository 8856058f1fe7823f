package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestErrorText(t *testing.T) {
	long := strings.Repeat("word ", 40)
	for text, want := range map[string]string{
		"connection refused": "connection refused",
		"dial tcp 10.0.0.7:5432: connect: connection refused":                  "connect: connection refused",
		`duplicate key value violates unique constraint "orders_pkey" (23505)`: "duplicate key value violates unique constraint",
		"exit status 3": "exit status",
		"exit status 1\nTraceback (most recent call last):\n  File 'x.py'": "exit status",
		"17\npanic: index out of range [5] with length 3":                  "panic: index out of range",
		"":                       "",
		"503":                    "",
		"x 1":                    "",
		long:                     strings.TrimSpace(long[:79]),
		strings.Repeat("x", 200): "",
	} {
		got := errorText(text)
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if !strings.Contains(text, got) {
			t.Errorf("%q does not contain %q", text, got)
		}
	}
}

func TestErrorTextsAreBoundedAndDistinct(t *testing.T) {
	var runs []storage.Record
	for n := range 40 {
		runs = append(runs, storage.Record{Error: fmt.Sprintf("step %d: kind %c", n, 'a'+n%20)},
			storage.Record{Error: fmt.Sprintf("timeout after %d s", n)}, storage.Record{})
	}
	got := errorTexts(runs)
	if len(got) != maxErrorTexts ||
		!slices.Equal(got[:3], []string{"kind a", "timeout after", "kind b"}) {
		t.Errorf("got %q, want %d texts, each once", got, maxErrorTexts)
	}
}
