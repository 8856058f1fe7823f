package locking

import "time"

const (
	// DefaultReserve is how long a waiter reserves its place unless it says otherwise.
	// A firing with the default wait policy goes on trying for longer, so that it
	// outlasts a reservation and is not skipped because of one.
	DefaultReserve = 5 * time.Second
	// NeverReserve is the option of a waiter that reserves nothing.
	NeverReserve time.Duration = -1
	// Unreserved is how many times as long as its reservation a waiter may be passed
	// before it reserves its place anew.
	Unreserved = 5
)

// ReserveOf returns how long a waiter with that option reserves its place: 0 stands
// for the default, and less than 0 for never.
func ReserveOf(option time.Duration) time.Duration {
	if option == 0 {
		return DefaultReserve
	}
	return max(option, 0)
}

// Reserve returns until when the place of a waiter is reserved that is refused now
// and was reserved until then, the zero time for a place that is new. All times are
// the store's: every store reserves by this rule.
//
// A place is reserved from its first refusal on. After that whoever conflicts may
// pass, though it is younger. A refusal reserves the place anew once the waiter
// could be passed for Unreserved times as long. So a waiter that is refused again
// and again keeps others out a sixth of the time, and is granted at the latest in
// the first reservation that begins after all that it waits for ends within it.
func Reserve(until, now time.Time, reserve time.Duration) time.Time {
	if reserve <= 0 || !until.IsZero() && now.Before(until.Add(Unreserved*reserve)) {
		return until
	}
	return now.Add(reserve)
}
