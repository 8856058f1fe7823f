package locks

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestUsual(t *testing.T) {
	usual := storage.Typical{Runs: 20, Median: 9 * time.Minute, Long: 20 * time.Minute}
	steady := storage.Typical{Runs: 20, Median: 9 * time.Minute, Long: 10 * time.Minute}
	now := time.Date(2026, 3, 14, 3, 12, 15, 0, time.UTC)
	for name, test := range map[string]struct {
		held    time.Duration
		typical storage.Typical
		want    string
	}{
		"much longer":             {21 * time.Minute, usual, "9 min"},
		"like the longest":        {20 * time.Minute, usual, ""},
		"less than twice as long": {18 * time.Minute, steady, ""},
		"few runs": {time.Hour, storage.Typical{Runs: 4, Median: time.Minute,
			Long: time.Minute}, ""},
		"no runs": {time.Hour, storage.Typical{}, ""},
	} {
		l := Lock{Since: now.Add(-test.held), typical: test.typical}
		if got := l.Usual(now); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
