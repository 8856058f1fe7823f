package jobs

import (
	"sync/atomic"
	"time"
)

// clusterClock is this machine's clock corrected by its measured offset to
// the store's, so that replicas with skewed clocks fire at the same instant.
// It may be used concurrently.
type clusterClock struct {
	offset atomic.Int64 // nanoseconds to add to this machine's clock
}

// measure takes the store's clock as read between two instants of ours. The
// error is at most half the time between them.
func (c *clusterClock) measure(before, after, theirs time.Time) {
	middle := before.Add(after.Sub(before) / 2)
	c.offset.Store(int64(theirs.Sub(middle.Round(0))))
}

// now returns cluster time.
func (c *clusterClock) now() time.Time { return time.Now().Add(c.Offset()).UTC() }

// Offset returns how far the store's clock is ahead of this machine's.
func (c *clusterClock) Offset() time.Duration { return time.Duration(c.offset.Load()) }
