package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// queryTimeout bounds all queries of one request.
	queryTimeout = 3 * time.Second
	// maxQueries bounds the requests that query the store concurrently, so that open pages can't
	// take its connections from jobs.
	maxQueries = 4
)

// errBusy reports that too many requests query the store.
var errBusy = errors.New("query store: too many concurrent requests")

// reader queries the store and memcached for requests.
type reader struct {
	records.Reader
	lock           *locks.Reader
	upcoming       func(from time.Time, n int) []ScheduledFiring
	scheduledTimes func(job string, from time.Time, n int) []time.Time
	tallies        *records.Cached[[]storage.Tally] // of the last 24 h
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
	tallies := func(ctx context.Context, now time.Time) ([]storage.Tally, error) {
		return o.Store.Tallies(ctx, now.Add(-lastDay))
	}
	return &reader{
		Reader: records.Reader{Store: o.Store},
		lock: locks.NewReader(o.Store, locks.Sources{Advisory: o.Advisory, Restarts: o.Restarts,
			ScheduledTimes: o.ScheduledTimes, LongestWait: o.LongestWait}),
		tallies: records.NewCached(tallies), upcoming: o.Upcoming, scheduledTimes: o.ScheduledTimes,
		explain: explainer, memory: o.Memory, ops: o.Operations,
		places: make(chan struct{}, maxQueries), timeout: queryTimeout,
	}
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
