package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestFailingJobsKeepTheirOrder checks that the numbers of failures do not decide the order of
// jobs, because a list can be read between the failures of two jobs.
func TestFailingJobsKeepTheirOrder(t *testing.T) {
	now := time.Date(2026, 3, 14, 3, 0, 0, 0, time.UTC)
	failed := func(times int, every time.Duration) (outcomes []storage.Outcome) {
		for i := range times {
			at := now.Add(-time.Duration(i) * every)
			outcomes = append(outcomes, storage.Outcome{ScheduledAt: at, FinishedAt: &at,
				State: jobs.Failed})
		}
		return outcomes
	}
	f := Facts{Outcomes: map[string][]storage.Outcome{
		"seldom": failed(3, time.Hour), "often": failed(5, time.Minute),
		"long": failed(outcomesOfJob, time.Second), "longest": failed(outcomesOfJob, time.Second),
	}, Earlier: map[string]storage.FailedRuns{
		"long":    {Number: 100, Since: now.Add(-24 * time.Hour)},
		"longest": {Number: storage.MaxFailures, Since: now.Add(-time.Hour), More: true},
	}}
	var names []string
	for _, group := range failingGroups(f, now) {
		for _, job := range group.Jobs {
			names = append(names, job.Job)
		}
	}
	if want := []string{"longest", "long", "seldom", "often"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}
