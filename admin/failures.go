package admin

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// JobFailures is what did not end well of one job in the last day.
type JobFailures struct {
	Job     string             `json:"job"`
	Runs    map[jobs.State]int `json:"runs"`             // by how they ended
	Reason  jobs.Reason        `json:"reason,omitempty"` // the most frequent
	Reasons int                `json:"of_reason"`        // how many runs had it
	Last    time.Time          `json:"last"`             // when the youngest was created
}

// sortTallies puts the most frequent first.
func sortTallies(tallies []jobs.Tally) {
	slices.SortFunc(tallies, func(a, b jobs.Tally) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Job, b.Job),
			cmp.Compare(a.State, b.State), cmp.Compare(a.Reason, b.Reason))
	})
}

// failuresByJob gathers tallies: the job with most runs that began and did not
// end well first, then by what was not begun.
func failuresByJob(tallies []jobs.Tally) []JobFailures {
	tallies = slices.Clone(tallies)
	sortTallies(tallies)
	indexes := make(map[string]int)
	reasons := make(map[string]map[jobs.Reason]int) // by job; a failure has none
	failures := []JobFailures{}
	for _, t := range tallies {
		index, known := indexes[t.Job]
		if !known {
			index = len(failures)
			indexes[t.Job] = index
			reasons[t.Job] = map[jobs.Reason]int{}
			failures = append(failures, JobFailures{Job: t.Job, Runs: map[jobs.State]int{}})
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

// Failed returns how many runs failed or took too long.
func (t JobFailures) Failed() int { return t.Runs[jobs.Failed] + t.Runs[jobs.TimedOut] }

// Broken returns how many runs began, and did not end well.
func (t JobFailures) Broken() int { return t.Failed() + t.Ended() }

// Ended returns how many runs were lost or cancelled.
func (t JobFailures) Ended() int { return t.Runs[jobs.Lost] + t.Runs[jobs.Cancelled] }

// NotRun returns how many firings were skipped or missed.
func (t JobFailures) NotRun() int { return t.Runs[jobs.Skipped] + t.Runs[jobs.Missed] }
