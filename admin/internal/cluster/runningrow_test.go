package cluster

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestRunningRunsAreComparedWithUsual checks the words and the meter beside a running run.
func TestRunningRunsAreComparedWithUsual(t *testing.T) {
	usual := storage.Typical{Runs: 20, Median: 9 * time.Minute, Long: 12 * time.Minute}
	for name, c := range map[string]struct {
		took            time.Duration
		usual           storage.Typical
		words           string
		over            bool
		elapsed, median string
	}{
		"as usual":     {6 * time.Minute, usual, "usually 9 min", false, "50.0%", "75.0%"},
		"above most":   {15 * time.Minute, usual, "usually 9 min", true, "100.0%", "60.0%"},
		"seven times":  {67 * time.Minute, usual, "7× usual", true, "100.0%", "13.4%"},
		"unknown":      {time.Hour, storage.Typical{}, "", false, "100.0%", "0.0%"},
		"few runs":     {time.Hour, storage.Typical{Runs: 4}, "", false, "100.0%", "0.0%"},
		"just started": {0, usual, "usually 9 min", false, "0.0%", "75.0%"},
		"started after the time of the page": {-time.Second, usual, "usually 9 min", false, "0.0%",
			"75.0%"},
	} {
		started := before(c.took)
		o := Overview{Now: night, usual: map[string]storage.Typical{"a": c.usual},
			Running: []storage.Record{{ID: uuid.UUID{1}, Job: "a", State: jobs.Running,
				StartedAt: &started}}}
		row := o.RunningShown()[0]
		if row.Usual() != c.words || row.Over() != c.over || row.Elapsed() != c.elapsed ||
			row.Median() != c.median {
			t.Errorf("%s: got %q, %t, %s, %s, want %+v", name, row.Usual(), row.Over(),
				row.Elapsed(), row.Median(), c)
		}
	}
}
