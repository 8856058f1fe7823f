package storage

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// MaxFailures is how many runs FailuresBefore considers for each job.
const MaxFailures = 1000

// RunBefore selects the runs of a job that were created before a run.
type RunBefore struct {
	Job    string
	Before RunCursor
}

// FailedRuns are runs of a job that failed in a row.
type FailedRuns struct {
	Number int
	Since  time.Time // the earliest of their ends; zero without a failure
	More   bool      // there may be earlier ones than those that were considered
}

// Failed reports whether runs in this state extend a row of failures.
func Failed(s jobs.State) bool {
	return s == jobs.Failed || s == jobs.TimedOut || s == jobs.Lost
}

// CountFailures returns the failures since the last success. The outcomes are the newest first, and
// at most MaxFailures. Stores use it.
func CountFailures(outcomes []Outcome) (f FailedRuns) {
	for _, o := range outcomes {
		if o.State == jobs.Succeeded {
			return f
		}
		if !Failed(o.State) {
			continue
		}
		ended := o.ScheduledAt
		if o.FinishedAt != nil {
			ended = *o.FinishedAt
		}
		if f.Number++; f.Number == 1 || ended.Before(f.Since) {
			f.Since = ended.UTC()
		}
	}
	f.More = len(outcomes) == MaxFailures
	return f
}
