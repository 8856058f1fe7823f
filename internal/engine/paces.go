package engine

import "time"

// paces are the least times between two batches of a kind. So work that comes one by one at a high
// rate shares transactions and requests to memcached. A start or a finish that is alone in its
// transaction costs PostgreSQL about ten times as much as in a batch of fifty. After a pause, the
// first work is sent at once.
type paces struct {
	// dispatch is how long due firings gather. A replica that is alone does not wait for it. In a
	// cluster each firing needs requests of several replicas, which firings that begin together
	// share: the looks of the other replicas, gate, locks, start and finish.
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
