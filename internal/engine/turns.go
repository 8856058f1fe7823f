package engine

import "time"

const (
	// turnTakers is how many replicas have their turn in each interval. One would do, but it may
	// have no free worker, or be dead.
	turnTakers = 3
	// turnAtLeast is after how many intervals a replica looks for waiting runs at the latest, if
	// its heartbeats find some. In a cluster of at most ten replicas, it looks without any, sweeps
	// and checks for misfires as often.
	turnAtLeast = 10
	// turnShift is how much earlier than a multiple of its length an interval begins. Most jobs are
	// due at whole seconds, and the upkeep should not use the processor then.
	turnShift = 500 * time.Millisecond
)

// turns share the upkeep of a cluster among its replicas, so that more replicas hardly sweep, check
// for misfires or look for waiting runs more often. While runs wait, the looks for them grow
// slowly with the replicas (see turnAtLeast).
// In each interval of cluster time, turnTakers of the live replicas with the same cron table have
// their turn one after the other, by rendezvous hash. With so few replicas, or if the others are
// not known, a replica always has its turn.
type turns struct {
	ranking *ranking
	clock   *clusterClock
}

// longest returns how long it takes at most until each live replica with the same cron table has
// looked for runs that wait. heartbeat is the time between heartbeats, which find these runs. If
// the other replicas are not known, longest assumes that there are many.
func (t turns) longest(interval, heartbeat time.Duration) time.Duration {
	if n := t.ranking.at(time.Now()).len(); n > 0 && n <= turnTakers {
		return 2 * interval
	}
	return max(turnAtLeast*interval, heartbeat) + interval
}

// rarest returns the longest time between two sweeps, two checks for misfires, or two looks for
// waiting runs that no heartbeat has found, of this replica. It grows with the number of replicas,
// so that those of all replicas hardly do.
func (t turns) rarest(interval time.Duration) time.Duration {
	return time.Duration(max(turnAtLeast, t.ranking.at(time.Now()).len())) * interval
}

// next returns the first time from earliest on, but not before now, at which it is this replica's
// turn, for work that the cluster needs once in each interval. It may change when the members do.
// From overdue on, the replica does not wait for its turn. All times are of this machine's clock.
func (t turns) next(now time.Time, interval time.Duration, overdue, earliest time.Time) time.Time {
	if earliest.Before(now) {
		earliest = now
	}
	members := t.ranking.at(now)
	if members.len() <= turnTakers {
		return earliest
	}
	next := earliest
	for next.Before(overdue) {
		since := t.clock.at(next).Add(turnShift)
		slot := since.Truncate(interval)
		rank := members.rank(mix(uint64(slot.UnixMicro())+uint64(interval)), turnTakers)
		if rank < turnTakers {
			begin := slot.Add(time.Duration(rank) * interval / turnTakers)
			next = next.Add(max(0, begin.Sub(since)))
			break
		}
		next = next.Add(slot.Add(interval).Sub(since))
	}
	if next.After(overdue) && overdue.After(earliest) {
		return overdue
	}
	return next
}
