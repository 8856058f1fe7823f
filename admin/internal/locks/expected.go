package locks

import (
	"context"
	"slices"
	"time"
)

// The overview needs the agenda, which can take some tenths of a second to compute, and seconds if
// the replica is overloaded. So it uses a result of up to expectedLifetime, and from an age of
// expectedRenewal a new one is computed in the background. If there is no result, a request waits
// for a tenth of the time that it has left.
const (
	expectedRenewal  = time.Minute
	expectedLifetime = 10 * time.Minute
)

// ExpectedConflicts counts the firings of the next 24 h that are expected to conflict with others,
// as the agenda does.
type ExpectedConflicts struct {
	Waits int `json:"waits"` // firings that are expected to wait, or to be skipped
	Skips int `json:"skips"` // of them, firings that are expected to be skipped
	// Next is the scheduled time of the first of them.
	Next  time.Time `json:"next,omitzero"`
	Until time.Time `json:"until"` // end of the computed time

	waits map[firingKey]expectedWait
}

// Of returns "wait" or "skip" if this is expected of a firing, and otherwise "".
func (e *ExpectedConflicts) Of(job string, scheduledAt time.Time) string {
	if e == nil {
		return ""
	}
	wait, expected := e.waits[firingKey{job, scheduledAt.UnixNano()}]
	switch {
	case !expected:
		return ""
	case wait.skipped:
		return "skip"
	default:
		return "wait"
	}
}

// FindExpectedConflicts returns the expected conflicts, or nil if they are not known yet.
func FindExpectedConflicts(ctx context.Context, r *Reader,
	now time.Time) (*ExpectedConflicts, error) {
	if r.Next == nil || r.ScheduledTimes == nil {
		return nil, nil
	}
	a, known, err := r.agendas[DefaultAgendaSpan].Soon(ctx, now, expectedRenewal, expectedLifetime)
	if !known {
		return nil, err
	}
	e := &ExpectedConflicts{Waits: a.Waits, Skips: a.Skips, Until: a.Until, waits: a.waits}
	after, _ := slices.BinarySearchFunc(a.waitTimes, now, func(at, now time.Time) int {
		if at.After(now) {
			return 1
		}
		return -1
	})
	if after < len(a.waitTimes) {
		e.Next = a.waitTimes[after]
	}
	return e, nil
}
