package storage

import (
	"slices"
	"time"
)

// Rest is the time between two attempts of a run. The run has no claim then.
type Rest struct {
	From  time.Time  `json:"from"`
	Until *time.Time `json:"until,omitempty"` // nil until the next attempt
}

// MaxRests is the most rests of a run that a store keeps. See EndRest.
const MaxRests = 32

// EndRest returns the rests with the last one ended at that time, if it had not ended. It does not
// change its arguments. If there are more than MaxRests, it joins the two oldest: their sum stays
// exact.
func EndRest(rests []Rest, at time.Time) []Rest {
	n := len(rests)
	if n == 0 || rests[n-1].Until != nil {
		return rests
	}
	rests = slices.Clone(rests)
	rests[n-1].Until = &at
	if n > MaxRests {
		rests[1].From = rests[1].From.Add(-rests[0].Until.Sub(rests[0].From))
		rests = rests[1:]
	}
	return rests
}

// NewRests returns rests from alternating times of begin and end.
func NewRests(times []time.Time) []Rest {
	var rests []Rest
	for pair := range slices.Chunk(times, 2) {
		rest := Rest{From: pair[0].UTC()}
		if len(pair) == 2 {
			until := pair[1].UTC()
			rest.Until = &until
		}
		rests = append(rests, rest)
	}
	return rests
}

// Executed returns the time of the attempts of a run between started and ended, without its rests.
func Executed(started, ended time.Time, rests []Rest) time.Duration {
	executed := ended.Sub(started)
	for _, r := range rests {
		until := ended
		if r.Until != nil && r.Until.Before(ended) {
			until = *r.Until
		}
		executed -= max(0, until.Sub(r.From))
	}
	return executed
}

// ExecutedIn is Executed for a run that has started and ended; false for others.
func ExecutedIn(started, finished *time.Time, rests []Rest) (time.Duration, bool) {
	if started == nil || finished == nil {
		return 0, false
	}
	return Executed(*started, *finished, rests), true
}
