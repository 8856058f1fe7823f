package cluster

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestMostFrequentReasonCountsFailures checks that runs with one reason are counted together over
// all states, and that failed runs without a reason count as one group.
func TestMostFrequentReasonCountsFailures(t *testing.T) {
	last := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	count := func(state jobs.State, reason jobs.Reason, runs int) storage.EndCount {
		return storage.EndCount{Job: "a", State: state, Reason: reason, Runs: runs, Last: last}
	}
	for _, c := range []struct {
		endCounts []storage.EndCount
		reason    jobs.Reason
		runs      int
	}{
		{[]storage.EndCount{count(jobs.Failed, "", 90), count(jobs.Skipped, reasons.LockHeld, 2)}, "",
			90},
		{[]storage.EndCount{count(jobs.Failed, "", 2), count(jobs.Skipped, reasons.LockHeld, 3)},
			reasons.LockHeld, 3},
		{[]storage.EndCount{count(jobs.Failed, "", 3), count(jobs.Skipped, reasons.Paused, 2),
			count(jobs.Missed, reasons.Paused, 2)}, reasons.Paused, 4},
	} {
		got := failuresByJob(c.endCounts, time.Time{})
		if len(got) != 1 || got[0].Reason != c.reason || got[0].Reasons != c.runs {
			t.Errorf("%+v: %+v, want %q of %d", c.endCounts, got, c.reason, c.runs)
		}
	}
}
