package engine

import (
	"sync/atomic"
	"time"
)

// clusterClock is the store's clock as this replica measured it, extrapolated by this machine's
// monotonic clock. So replicas with skewed clocks fire at the same time, and a step of this
// machine's wall clock moves no firing. It may be used concurrently, except for measure.
//
// It keeps the measurement with the smallest possible error. A measurement that took long, because
// the network or the store was busy, has a large error and must not replace a better one.
type clusterClock struct {
	best atomic.Pointer[reading] // nil before the first measurement
}

// clockDrift is the largest assumed difference in speed between two clocks, in parts per million.
// It exceeds that of quartz clocks and of ordinary NTP slewing. The error of a measurement grows
// with its age by this rate: by 1 ms in 5 s, the default heartbeat.
const clockDrift = 200

// reading is one point in time on the store's clock and on this machine's clock.
type reading struct {
	theirs time.Time
	ours   time.Time     // with its monotonic reading
	margin time.Duration // the largest possible error
}

// at returns the store's time at a local time.
func (r *reading) at(ours time.Time) time.Time { return r.theirs.Add(ours.Sub(r.ours)) }

// marginAt returns the largest possible error of at.
func (r *reading) marginAt(ours time.Time) time.Duration {
	return r.margin + ours.Sub(r.ours).Abs()/1_000_000*clockDrift
}

// measure takes the store's time as read between two local times. The error is at most half the
// time between them. It keeps the known measurement if that is more precise, unless the two
// contradict each other. In that case one of the clocks was set, and the new measurement counts.
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

// now returns cluster time; this machine's time before the first measurement.
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

// offset returns how far cluster time is ahead of this machine's wall clock at ours, and whether it
// was measured. A step of the wall clock shows in it at once.
func (c *clusterClock) offset(ours time.Time) (ahead time.Duration, measured bool) {
	return c.at(ours).Sub(ours.Round(0)), c.best.Load() != nil
}

// margin returns the largest possible error of the offset at ours.
func (c *clusterClock) margin(ours time.Time) time.Duration {
	if best := c.best.Load(); best != nil {
		return best.marginAt(ours)
	}
	return 0
}
