package engine

import "time"

const (
	// turnTakers is how many replicas have their turn in each interval. One would do, but it may
	// have no free worker, or be dead.
	turnTakers = 3
	// turnAtLeast is after how many intervals a replica has its turn at the latest.
	turnAtLeast = 10
)

// turns share the upkeep of a cluster among its replicas, so that more replicas make no more polls.
// In each interval of cluster time, turnTakers of the live replicas with the same cron table have
// their turn, by rendezvous hash. With so few replicas, or if the others are not known, a replica
// always has its turn.
type turns struct {
	ranking *ranking
	clock   *clusterClock
}

// longest returns how long it takes at most until each live replica with the same cron table has
// had its turn. If the others are not known, it assumes that there are many.
func (t turns) longest(interval time.Duration) time.Duration {
	if n := t.ranking.at(time.Now()).len(); n > 0 && n <= turnTakers {
		return 2 * interval
	}
	return (turnAtLeast + 1) * interval
}

// has reports whether it is this replica's turn, for work that the cluster needs once in each
// interval. last is when this replica did it last, by this machine's clock.
func (t turns) has(interval time.Duration, last time.Time) bool {
	now := time.Now()
	members := t.ranking.at(now)
	if members.len() <= turnTakers || now.Sub(last) >= turnAtLeast*interval {
		return true
	}
	slot := t.clock.at(now).Truncate(interval).UnixMicro()
	return members.rank(mix(uint64(slot)+uint64(interval)), turnTakers) < turnTakers
}
