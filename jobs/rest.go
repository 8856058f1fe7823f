package jobs

import (
	"slices"
	"time"
)

// Rest is the time between two attempts of a run, which has no claim then.
type Rest struct {
	From  time.Time  `json:"from"`
	Until *time.Time `json:"until,omitempty"` // where no attempt followed yet, there is none
}

// MaxRests is how many rests of a run a store keeps. See EndRest.
const MaxRests = 32

// EndRest returns the rests with the last one ended at that time, if it had not ended.
// It changes nothing that it is given. Where there are more than MaxRests, it joins
// the two oldest: their sum stays exact, and only their places are lost.
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

// NewRests returns rests from the times at which they began and ended, in turns.
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

// Executed returns for how long attempts of a run went on that started and, as far as
// is asked for, ended at these times: all of it but the rests.
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

// executedIn is Executed of a run that has started and ended, or false.
func executedIn(started, finished *time.Time, rests []Rest) (time.Duration, bool) {
	if started == nil || finished == nil {
		return 0, false
	}
	return Executed(*started, *finished, rests), true
}
