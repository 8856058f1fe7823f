package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Reader queries the state of the cluster. It is safe for concurrent use.
type Reader struct {
	records.Reader
	lock     *locks.Reader
	upcoming func(from time.Time, n int) []ScheduledFiring // may be nil
	tallies  *records.Cached[[]storage.Tally]              // of the last 24 h
	known    *records.Cached[Facts]
	groups   *records.Cached[[]storage.Group]
	ops      *operations.Operations // may be nil
}

// NewReader returns a reader of a store. Upcoming returns the next firing after from of each
// job, at most n of them, and may be nil, as may ops.
func NewReader(store storage.History, lock *locks.Reader, ops *operations.Operations,
	upcoming func(from time.Time, n int) []ScheduledFiring) *Reader {
	r := &Reader{Reader: records.Reader{Store: store}, lock: lock, upcoming: upcoming, ops: ops}
	r.tallies = records.NewCached(records.CacheLifetime,
		func(ctx context.Context, now time.Time) ([]storage.Tally, error) {
			return store.Tallies(ctx, now.Add(-lastDay))
		})
	r.known = records.NewCached(factsLifetime, r.facts)
	r.groups = records.NewCached(records.CacheLifetime,
		func(ctx context.Context, _ time.Time) ([]storage.Group, error) {
			return store.Groups(ctx)
		})
	return r
}

// Groups returns the groups of jobs, for a filter. It is cached, because it reads all jobs.
func (r *Reader) Groups(ctx context.Context, now time.Time) ([]storage.Group, error) {
	groups, err := r.groups.Get(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	return groups, nil
}

// recentTallies counts the runs of the last 24 h that did not succeed.
func (r *Reader) recentTallies(ctx context.Context, now time.Time) ([]storage.Tally, error) {
	tallies, err := r.tallies.Get(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("query failed and skipped runs: %w", err)
	}
	return tallies, nil
}
