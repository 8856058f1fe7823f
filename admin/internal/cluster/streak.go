package cluster

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxFailureAge is the age of a job's last failure after which the job does not count as failing: a
// week, for weekly jobs, and a day.
const maxFailureAge = 8 * 24 * time.Hour

// streak is a sequence of failures of a job without a success in between. Firings that did not run
// and cancelled runs neither end nor extend it.
type streak struct {
	Failures int
	Lost     bool       // the last failure is a lost run
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

// streak returns the last streak of a job, with its failures before the outcomes.
func (f Facts) streak(job string, now time.Time) streak {
	s := newStreak(f.Outcomes[job], now)
	earlier, known := f.Earlier[job]
	if !s.Open || !known {
		return s
	}
	s.Open = earlier.More
	s.Failures += earlier.Number
	if earlier.Number > 0 {
		s.Since = earlier.Since
	}
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
		case storage.Failed(o.State):
			if s.Failures == 0 {
				s.Last, s.Lost = at, o.State == jobs.Lost
			}
			s.Failures++
			s.Since = at
		}
	}
	return s, false
}

// skipsOf returns how many of the last firings of a job were skipped in a row, and when the first
// of them was scheduled. A run that runs or has run ends the row. Firings that wait and those that
// [isSkip] leaves out neither end nor extend it.
func skipsOf(outcomes []storage.Outcome) (n int, since time.Time) {
	for _, o := range outcomes {
		switch {
		case o.State == jobs.Waiting || o.State == jobs.Skipped && !isSkip(o.Reason):
		case o.State == jobs.Skipped:
			n++
			since = o.ScheduledAt.UTC()
		default:
			return n, since
		}
	}
	return n, since
}

// isSkip reports whether a skip with the reason may be a problem. Operators pause and remove jobs.
// A run that overlaps the next firing of its job is a problem only if it takes too long, which has
// its own rule.
func isSkip(reason jobs.Reason) bool {
	return reason != reasons.Paused && reason != reasons.Overlap && reason != reasons.JobGone
}

// skipsRepeatedly reports whether so many firings in a row were skipped that it is a problem.
func skipsRepeatedly(outcomes []storage.Outcome, now time.Time) bool {
	n, _ := skipsOf(outcomes)
	return n >= skipsInARow ||
		n >= seldomSkipsInARow && timeBetween(outcomes, now) > seldomSkipped
}

// skipsDecided reports whether no earlier outcome can change the row of skipped firings.
func skipsDecided(outcomes []storage.Outcome) bool {
	return slices.ContainsFunc(outcomes, func(o storage.Outcome) bool {
		return o.State != jobs.Waiting && o.State != jobs.Skipped
	})
}
