package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// JobFailures counts the runs of a job in the last 24 h that failed, were lost, cancelled, skipped
// or missed.
type JobFailures struct {
	Job     string             `json:"job"`
	Runs    map[jobs.State]int `json:"runs"`             // by state
	Reason  jobs.Reason        `json:"reason,omitempty"` // the most frequent
	Reasons int                `json:"of_reason"`        // number of runs with this reason
	Last    time.Time          `json:"last"`             // creation time of the newest run
	Since   time.Time          `json:"-"`                // earliest creation time of a counted run
}

// SortEndCounts sorts the counts, most frequent first.
func SortEndCounts(endCounts []storage.EndCount) {
	slices.SortFunc(endCounts, func(a, b storage.EndCount) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Job, b.Job),
			cmp.Compare(a.State, b.State), cmp.Compare(a.Reason, b.Reason))
	})
}

// failuresByJob groups the counts by job. Jobs with the most failed, lost or cancelled runs come
// first, then those with the most skips and misfires. The runs were created at since or later.
func failuresByJob(endCounts []storage.EndCount, since time.Time) []JobFailures {
	endCounts = slices.Clone(endCounts)
	SortEndCounts(endCounts)
	indexes := make(map[string]int)
	reasons := make(map[string]map[jobs.Reason]int) // by job; failed runs have no reason
	failures := []JobFailures{}
	for _, t := range endCounts {
		index, known := indexes[t.Job]
		if !known {
			index = len(failures)
			indexes[t.Job] = index
			reasons[t.Job] = map[jobs.Reason]int{}
			failures = append(failures, JobFailures{Job: t.Job, Runs: map[jobs.State]int{},
				Since: since})
		}
		job := &failures[index]
		job.Runs[t.State] += t.Runs
		counts := reasons[t.Job]
		counts[t.Reason] += t.Runs
		if counts[t.Reason] > job.Reasons {
			job.Reason, job.Reasons = t.Reason, counts[t.Reason]
		}
		if t.Last.After(job.Last) {
			job.Last = t.Last.UTC()
		}
	}
	slices.SortStableFunc(failures, func(a, b JobFailures) int {
		return cmp.Or(cmp.Compare(b.Broken(), a.Broken()), cmp.Compare(b.NotRun(), a.NotRun()),
			cmp.Compare(a.Job, b.Job))
	})
	return failures
}

// Failed returns the number of runs that failed or timed out.
func (t JobFailures) Failed() int { return t.Runs[jobs.Failed] + t.Runs[jobs.TimedOut] }

// Broken returns the number of runs that started and did not succeed.
func (t JobFailures) Broken() int { return t.Failed() + t.Ended() }

// Ended returns the number of runs that were lost or cancelled.
func (t JobFailures) Ended() int { return t.Runs[jobs.Lost] + t.Runs[jobs.Cancelled] }

// NotRun returns the number of firings that were skipped or missed.
func (t JobFailures) NotRun() int { return t.Runs[jobs.Skipped] + t.Runs[jobs.Missed] }
