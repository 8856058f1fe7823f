package engine

import "time"

// paces are the least times between two batches of a kind. Work that comes one by one, at a high
// rate, then shares requests: a start or a finish that is alone in its transaction costs PostgreSQL
// about ten times as much as in a batch of fifty, and requests to memcached are shared likewise.
// The first after a pause never waits.
type paces struct {
	// dispatch is the time in which due firings gather if the replica is not alone. Each of them
	// then costs several requests: the looks of the other replicas, gate, locks, start and finish.
	dispatch time.Duration
	starts   time.Duration
	finishes time.Duration // unless a firing of this replica waits for the resources
	notes    time.Duration // nobody waits for them, except at shutdown
}

// newPaces returns the paces of a replica, or none at all (see Options.Unpaced).
func newPaces(unpaced bool) paces {
	if unpaced {
		return paces{}
	}
	return paces{dispatch: 50 * time.Millisecond, starts: 10 * time.Millisecond,
		finishes: 20 * time.Millisecond, notes: 50 * time.Millisecond}
}
