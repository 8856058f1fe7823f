package cluster

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxFailureAge is the age of a job's last failure after which the job does not count as failing: a
// week, for weekly jobs, and a day.
const maxFailureAge = 8 * 24 * time.Hour

// streak is a sequence of failures of a job without a success in between. Firings that did not run
// and cancelled runs neither end nor extend it.
type streak struct {
	Failures int
	Open     bool       // there may be earlier failures than those that were checked
	Since    time.Time  // end of the first failure
	Last     time.Time  // end of the last failure
	EndedAt  *time.Time // of the first success after the last failure, at most HoldTime ago
}

// newStreak returns the last streak of outcomes, which are the newest first. If the job has
// succeeded since, for longer than HoldTime, there is none.
func newStreak(outcomes []storage.Outcome, now time.Time) streak {
	s, decided := decideStreak(outcomes, now)
	s.Open = !decided && len(outcomes) >= outcomesOfJob
	return s
}

// decideStreak also reports whether no earlier outcome can change the streak.
func decideStreak(outcomes []storage.Outcome, now time.Time) (s streak, decided bool) {
	for _, o := range outcomes {
		at := o.ScheduledAt
		if o.FinishedAt != nil {
			at = *o.FinishedAt
		}
		at = at.UTC()
		switch {
		case o.State == jobs.Succeeded:
			if s.Failures > 0 || now.Sub(at) >= HoldTime {
				return s, true
			}
			s.EndedAt = &at
		case slices.Contains(failedStates(), o.State):
			if s.Failures == 0 {
				s.Last = at
			}
			s.Failures++
			s.Since = at
		}
	}
	return s, false
}
