package storage

import (
	"testing"
	"time"
)

func TestFiltersThatSelectNothing(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	cursor := func(hour int) *RunCursor { return &RunCursor{CreatedAt: at(hour)} }
	for _, c := range []struct {
		name    string
		filter  RunFilter
		nothing bool
	}{
		{"all", RunFilter{}, false},
		{"since", RunFilter{From: at(3)}, false},
		{"until", RunFilter{Until: at(3)}, false},
		{"between", RunFilter{From: at(2), Until: at(3)}, false},
		{"ends before it begins", RunFilter{From: at(3), Until: at(2)}, true},
		{"a page in the time", RunFilter{From: at(2), Until: at(5), Before: cursor(4)}, false},
		{"a page before the time", RunFilter{From: at(3), Before: cursor(2)}, true},
		{"a page after the time", RunFilter{Until: at(3), After: cursor(4)}, true},
		{"a page back", RunFilter{Until: at(3), After: cursor(2)}, false},
		{"between two runs", RunFilter{After: cursor(2), Before: cursor(3)}, false},
		{"between two runs of one time", RunFilter{After: cursor(2), Before: cursor(2)}, false},
		{"between swapped runs", RunFilter{After: cursor(3), Before: cursor(2)}, true},
	} {
		if got := c.filter.Nothing(); got != c.nothing {
			t.Errorf("%s: %t, want %t", c.name, got, c.nothing)
		}
	}
}
