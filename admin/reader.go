package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// queryTimeout bounds all queries of one request.
	queryTimeout = 3 * time.Second
	// advisoryTimeout is shorter, because the page works without memcached.
	advisoryTimeout = time.Second
	// maxQueries bounds the requests that query the store concurrently, so that open pages can't
	// take its connections from jobs.
	maxQueries = 4
)

// errBusy reports that too many requests query the store.
var errBusy = errors.New("query store: too many concurrent requests")

// reader queries the store and memcached for requests.
type reader struct {
	store          storage.History
	advisory       Advisory
	upcoming       func(from time.Time, n int) []ScheduledFiring
	scheduledTimes func(job string, from time.Time, n int) []time.Time
	known          *cached[[]locking.Resource] // resources that jobs name
	tallies        *cached[[]storage.Tally]    // of the last 24 h
	lockers        *cached[[]storage.Locker]
	conflicts      *cached[upcomingConflicts]
	durations      durations
	waitLimit      func(job string, limit time.Duration) (time.Duration, bool)
	restarts       storage.Restarts // may be nil
	memory         storage.Memory
	ops            *operations.Operations
	explain        func(ctx context.Context, job, at string) (explain.Explanation, error)
	places         chan struct{}
	timeout        time.Duration // of all queries of one request: queryTimeout
}

func newReader(o Options) *reader {
	explainer := o.Explain
	if explainer == nil {
		explainer = explain.New(o.Store, nil, explain.DefaultKeep).Explain
	}
	known := func(ctx context.Context, _ time.Time) ([]locking.Resource, error) {
		return o.Store.Resources(ctx)
	}
	tallies := func(ctx context.Context, now time.Time) ([]storage.Tally, error) {
		return o.Store.Tallies(ctx, now.Add(-lastDay))
	}
	lockers := func(ctx context.Context, _ time.Time) ([]storage.Locker, error) {
		return o.Store.Lockers(ctx)
	}
	r := &reader{
		known: newCached(known), tallies: newCached(tallies), lockers: newCached(lockers),
		restarts: o.Restarts,
		store:    o.Store, advisory: o.Advisory, upcoming: o.Upcoming,
		scheduledTimes: o.ScheduledTimes,
		explain:        explainer, memory: o.Memory, ops: o.Operations,
		places:    make(chan struct{}, maxQueries),
		waitLimit: o.LongestWait, timeout: queryTimeout,
	}
	r.conflicts = newCached(func(ctx context.Context, now time.Time) (upcomingConflicts, error) {
		return r.findConflicts(ctx, now, nil)
	})
	return r
}

// query waits for its turn and calls load with the timeout of a request.
func (r *reader) query(parent context.Context, load func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(parent, r.timeout)
	defer cancel()
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-ctx.Done():
		return cmp.Or(parent.Err(), errBusy)
	}
	err := load(ctx)
	if err != nil && ctx.Err() != nil && parent.Err() == nil {
		return fmt.Errorf("no answer within %s: %w", r.timeout, err)
	}
	return err
}

// firings returns the next firing of each job, at most n.
func (r *reader) firings(from time.Time, n int) []ScheduledFiring {
	if r.upcoming == nil || n <= 0 {
		return nil
	}
	scheduledTimes := r.upcoming(from, n)
	return scheduledTimes[:min(n, len(scheduledTimes))]
}
