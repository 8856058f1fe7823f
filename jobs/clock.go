package jobs

import (
	"sync/atomic"
	"time"
)

// clusterClock is the store's clock as this replica has measured it, carried on
// by this machine's monotonic clock: replicas with skewed clocks fire at the same
// instant, and a step of this machine's wall clock moves no firing. It may be used
// concurrently, but for measure.
//
// Of its measurements it keeps the one that may be mistaken least by now: one that
// took long, because the network or the store was busy, says little, and must not
// take the place of a good one.
type clusterClock struct {
	best atomic.Pointer[reading] // nil until it was measured
}

// clockDrift is how much faster or slower two clocks may run: 200 millionths, more
// than quartz does and less than PostgreSQL's machine is slewed by for long. By it
// a measurement becomes uncertain as it ages: by 1 ms in 5 s, the usual heartbeat.
const clockDrift = 200

// reading is one instant, as the store and as this machine had it.
type reading struct {
	theirs time.Time
	ours   time.Time     // with its monotonic reading
	margin time.Duration // how far the two may be from one instant
}

// at returns the store's clock at an instant of ours.
func (r *reading) at(ours time.Time) time.Time { return r.theirs.Add(ours.Sub(r.ours)) }

// marginAt returns how far at may be mistaken then.
func (r *reading) marginAt(ours time.Time) time.Duration {
	return r.margin + ours.Sub(r.ours).Abs()/1_000_000*clockDrift
}

// measure takes the store's clock as read between two instants of ours. The
// error is at most half the time between them. It keeps what it has where that is
// more certain, unless the two contradict each other: then one of the clocks was
// set, and the new one counts.
func (c *clusterClock) measure(before, after, theirs time.Time) {
	half := after.Sub(before) / 2
	next := &reading{theirs: theirs, ours: before.Add(half), margin: half}
	if best := c.best.Load(); best != nil {
		known := best.marginAt(next.ours)
		agree := best.at(next.ours).Sub(theirs).Abs() <= known+next.margin
		if agree && known < next.margin {
			return
		}
	}
	c.best.Store(next)
}

// now returns cluster time; until it was measured, this machine's.
func (c *clusterClock) now() time.Time { return c.at(time.Now()).UTC() }

func (c *clusterClock) at(ours time.Time) time.Time {
	best := c.best.Load()
	if best == nil {
		return ours
	}
	return best.at(ours)
}

// Offset returns how far cluster time is ahead of this machine's wall clock.
func (c *clusterClock) Offset() time.Duration {
	offset, _ := c.offset(time.Now())
	return offset
}

// offset returns how far cluster time is ahead of this machine's wall clock as
// it stood at ours, and whether that was ever measured. A step of the wall clock
// shows in it at once.
func (c *clusterClock) offset(ours time.Time) (ahead time.Duration, measured bool) {
	return c.at(ours).Sub(ours.Round(0)), c.best.Load() != nil
}

// margin is what the offset may be mistaken by at ours.
func (c *clusterClock) margin(ours time.Time) time.Duration {
	if best := c.best.Load(); best != nil {
		return best.marginAt(ours)
	}
	return 0
}
