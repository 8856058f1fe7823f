package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// quickRun is how long the handler of a quick job takes on average, at most.
	quickRun = 10 * time.Millisecond
	// A job whose handler takes between surelyQuickRun and slowRun on one replica may be quick on
	// another replica, or slow.
	surelyQuickRun = quickRun / 2
	slowRun        = 2 * quickRun
)

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
	mean := q.mean()
	return mean > 0 && mean <= quickRun
}

// mean returns how long the handler takes, or 0 if nothing is known.
func (q *quickness) mean() time.Duration {
	if mean := q.calls.get(); mean > 0 {
		return mean
	}
	return q.first.get()
}

// mayBeQuick reports whether the job may be quick on other replicas, which may have measured other
// times. A job that has not run on this replica may be quick.
func (q *quickness) mayBeQuick() bool { return q.calls.get() <= slowRun }

// mayBeSlow reports whether the handler may take longer than quickRun on other replicas. At least
// one of mayBeQuick and mayBeSlow returns true.
func (q *quickness) mayBeSlow() bool {
	mean := q.mean()
	return mean == 0 || mean > surelyQuickRun
}

// quickTime returns how much the job adds to the time of quick handlers: its mean time, or less if
// that exceeds quickRun. If two replicas measure different times, their results differ by the same
// factor at most.
func (q *quickness) quickTime() time.Duration {
	mean := q.mean()
	if mean <= quickRun {
		return mean
	}
	return time.Duration(float64(quickRun) * float64(quickRun) / float64(mean))
}
