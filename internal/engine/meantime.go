package engine

import (
	"sync/atomic"
	"time"
)

// meanWeight is the share of the mean that a new time replaces: one in meanWeight.
const meanWeight = 4

// meanTime is the mean of a series of times. Recent times count more than earlier ones. It may be
// used concurrently.
type meanTime struct{ nanoseconds atomic.Int64 }

// add adds a time, and reports whether it is the first one. Of two concurrent times, one may not
// count.
func (m *meanTime) add(took time.Duration) (first bool) {
	mean, took := m.nanoseconds.Load(), max(took, 1)
	first = mean == 0
	if first {
		mean = int64(took)
	}
	m.nanoseconds.Store(mean + (int64(took)-mean)/meanWeight)
	return first
}

// get returns the mean, or 0 if there is no time yet.
func (m *meanTime) get() time.Duration { return time.Duration(m.nanoseconds.Load()) }
