package storage

import (
	"slices"
	"time"
)

// RetryWait is the time between two attempts of a run.
type RetryWait struct {
	From  time.Time  `json:"from"`
	Until *time.Time `json:"until,omitempty"` // nil until the next attempt
}

// MaxRetryWaits is the maximum number of waits that a store keeps for a run.
const MaxRetryWaits = 32

// EndRetryWait returns the waits. The last one ends at the given time, unless it had ended already.
// If there are more than MaxRetryWaits, EndRetryWait replaces the two oldest by one wait with their
// total length.
func EndRetryWait(waits []RetryWait, at time.Time) []RetryWait {
	n := len(waits)
	if n == 0 || waits[n-1].Until != nil {
		return waits
	}
	waits = slices.Clone(waits)
	waits[n-1].Until = &at
	if n > MaxRetryWaits {
		waits[1].From = waits[1].From.Add(-waits[0].Until.Sub(waits[0].From))
		waits = waits[1:]
	}
	return waits
}

// NewRetryWaits returns waits from times that alternate between begin and end.
func NewRetryWaits(times []time.Time) []RetryWait {
	var waits []RetryWait
	for pair := range slices.Chunk(times, 2) {
		wait := RetryWait{From: pair[0].UTC()}
		if len(pair) == 2 {
			until := pair[1].UTC()
			wait.Until = &until
		}
		waits = append(waits, wait)
	}
	return waits
}

// Executed returns the time of the attempts of a run between started and ended, without its waits.
func Executed(started, ended time.Time, waits []RetryWait) time.Duration {
	executed := ended.Sub(started)
	for _, r := range waits {
		until := ended
		if r.Until != nil && r.Until.Before(ended) {
			until = *r.Until
		}
		executed -= max(0, until.Sub(r.From))
	}
	return executed
}

// executedIn is Executed for a run that has started and ended. It returns false for others.
func executedIn(started, finished *time.Time, waits []RetryWait) (time.Duration, bool) {
	if started == nil || finished == nil {
		return 0, false
	}
	return Executed(*started, *finished, waits), true
}
