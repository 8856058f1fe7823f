package locking

import "time"

const (
	// DefaultReserve is how long a waiter reserves its position by default. It is shorter than the
	// time for which a firing waits for its locks by default. So a firing is not skipped because of
	// one reservation of an older waiter.
	DefaultReserve = 5 * time.Second
	// NeverReserve is the option of a waiter that reserves nothing.
	NeverReserve time.Duration = -1
	// Unreserved is how long younger requests may pass a waiter after its
	// reservation, as a multiple of the reservation.
	Unreserved = 5
)

// ReserveOf returns the reservation of a waiter with that option: 0 means the
// default, a negative option none.
func ReserveOf(option time.Duration) time.Duration {
	if option == 0 {
		return DefaultReserve
	}
	return max(option, 0)
}

// Reserve returns the end of a waiter's reservation. The argument now is the time of the refusal,
// and until is the end of the waiter's last reservation, which is zero for a new waiter. All times
// are the store's. Every store uses this rule.
//
// A waiter has its first reservation from its first refusal on. After a reservation, younger
// conflicting requests may pass for 5 times as long (Unreserved). The next refusal then begins a
// new reservation. So a waiter that is refused again and again blocks others for a sixth of the
// time.
// If all locks that block it end during one of its reservations, its next try in that reservation
// is granted, because no younger request can take them.
func Reserve(until, now time.Time, reserve time.Duration) time.Time {
	if reserve <= 0 || !until.IsZero() && now.Before(until.Add(Unreserved*reserve)) {
		return until
	}
	return now.Add(reserve)
}
