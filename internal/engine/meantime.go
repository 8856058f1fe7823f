package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// meanWeight is the share of the mean that a new time replaces: one in meanWeight.
const meanWeight = 4

// meanTime is how long the handler of a job takes on average. Recent calls count more than earlier
// ones. It may be used concurrently.
type meanTime struct{ nanoseconds atomic.Int64 }

// measure returns the handler, and adds the time that it takes. The time for which a busy machine
// delays the call does not count.
func (m *meanTime) measure(handle jobs.HandlerFunc) jobs.HandlerFunc {
	return func(ctx context.Context, run *jobs.Run) error {
		start := time.Now()
		defer func() { m.add(time.Since(start)) }()
		return handle(ctx, run)
	}
}

// add adds the time of one call. Of two concurrent calls, one may not count.
func (m *meanTime) add(took time.Duration) {
	mean, took := m.nanoseconds.Load(), max(took, 1)
	if mean == 0 {
		mean = int64(took)
	}
	m.nanoseconds.Store(mean + (int64(took)-mean)/meanWeight)
}

// quick reports whether the handler is known to take at most quickRun on average.
func (m *meanTime) quick() bool {
	mean := m.nanoseconds.Load()
	return mean > 0 && mean <= int64(quickRun)
}
