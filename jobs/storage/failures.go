package storage

import (
	"slices"
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

// FailedStates returns the states of failed runs.
func FailedStates() []jobs.State { return []jobs.State{jobs.Failed, jobs.TimedOut, jobs.Lost} }

// Failed reports whether runs in this state have failed.
func Failed(s jobs.State) bool { return slices.Contains(FailedStates(), s) }

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
