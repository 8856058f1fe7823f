package jobs

import (
	"sync/atomic"
	"time"
)

// clusterClock is the store's clock as this replica measured it last, carried
// on by this machine's monotonic clock: replicas with skewed clocks fire at the
// same instant, and a step of this machine's wall clock moves no firing. It
// may be used concurrently.
type clusterClock struct {
	last atomic.Pointer[reading] // nil until it was measured
}

// reading is one instant, as the store and as this machine had it.
type reading struct {
	theirs time.Time
	ours   time.Time     // with its monotonic reading
	margin time.Duration // how far the two may be from one instant
}

// measure takes the store's clock as read between two instants of ours. The
// error is at most half the time between them.
func (c *clusterClock) measure(before, after, theirs time.Time) {
	half := after.Sub(before) / 2
	c.last.Store(&reading{theirs: theirs, ours: before.Add(half), margin: half})
}

// now returns cluster time; until it was measured, this machine's.
func (c *clusterClock) now() time.Time { return c.at(time.Now()).UTC() }

func (c *clusterClock) at(ours time.Time) time.Time {
	last := c.last.Load()
	if last == nil {
		return ours
	}
	return last.theirs.Add(ours.Sub(last.ours))
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
	return c.at(ours).Sub(ours.Round(0)), c.last.Load() != nil
}

// margin is what the offset may be mistaken by.
func (c *clusterClock) margin() time.Duration {
	if last := c.last.Load(); last != nil {
		return last.margin
	}
	return 0
}
