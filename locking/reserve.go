package locking

import "time"

const (
	// DefaultReserve is shorter than the default time for which a firing waits for its locks.
	DefaultReserve = 5 * time.Second
	// NeverReserve is the option of a waiter without reservations.
	NeverReserve time.Duration = -1
	// Unreserved is the time between two reservations of a waiter, as a multiple of one
	// reservation.
	Unreserved = 5
)

// ReserveOf returns the length of a reservation for that option.
func ReserveOf(option time.Duration) time.Duration {
	if option == 0 {
		return DefaultReserve
	}
	return max(option, 0)
}

// Reserve returns the end of a waiter's reservation, and is called at each refusal. now is the time
// of the refusal. until is the end of the waiter's last reservation, or zero for a new waiter. All
// times are the store's.
//
// The first refusal begins a reservation. After the reservation, younger requests may pass the
// waiter for five times as long (the constant [Unreserved]). The next refusal then begins a new
// reservation. So a waiter that waits for a long time blocks others for about a sixth of the time.
// If all blockers end during a reservation, the next try in it is granted.
func Reserve(until, now time.Time, reserve time.Duration) time.Time {
	if reserve <= 0 || !until.IsZero() && now.Before(until.Add(Unreserved*reserve)) {
		return until
	}
	return now.Add(reserve)
}
