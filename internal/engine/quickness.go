package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// quickRun is how long the handler of a quick job takes on average, at most.
const quickRun = 10 * time.Millisecond

// quickness measures how long the handler of a job takes on this replica. It may be used
// concurrently.
type quickness struct {
	calls meanTime  // of this job
	first *meanTime // the first call of each job of the replica
}

// measure returns the handler, and adds the time of each call. The time for which a busy machine
// delays the call does not count.
func (q *quickness) measure(handle jobs.HandlerFunc) jobs.HandlerFunc {
	return func(ctx context.Context, run *jobs.Run) error {
		start := time.Now()
		defer func() { q.add(time.Since(start)) }()
		return handle(ctx, run)
	}
}

// add adds the time of a call.
func (q *quickness) add(took time.Duration) {
	if q.calls.add(took) {
		q.first.add(took)
	}
}

// isQuick reports whether the handler takes at most quickRun on average. Before its first call, it
// is assumed to take as long as the recent first calls of other jobs.
func (q *quickness) isQuick() bool {
	mean := q.calls.get()
	if mean == 0 {
		mean = q.first.get()
	}
	return mean > 0 && mean <= quickRun
}
