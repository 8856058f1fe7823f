package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Reader queries the state of the cluster. It is safe for concurrent use.
type Reader struct {
	records.Reader
	Outcomes  *records.Outcomes // the last runs of jobs
	lock      *locks.Reader
	upcoming  func(from time.Time, n int) []ScheduledFiring // may be nil
	endCounts *records.Cached[talliedDay]
	known     *records.Cached[Facts]
	groups    *records.Cached[[]storage.Group]
	delays    startDelays
	counted   *records.Keyed[histogramSpan, []storage.Quarter]
	ops       *operations.Operations    // may be nil
	answered  atomic.Pointer[time.Time] // when Snapshot last read the state; nil: never
}

// NewReader returns a reader of a store. Upcoming returns the next firing after from of each
// job, at most n of them, and may be nil, as may ops.
func NewReader(runs records.Reader, lock *locks.Reader, ops *operations.Operations,
	upcoming func(from time.Time, n int) []ScheduledFiring) *Reader {
	store := runs.Store
	r := &Reader{Reader: runs, lock: lock, upcoming: upcoming, ops: ops,
		Outcomes: records.NewOutcomes(store)}
	r.endCounts = records.NewQuietCached(
		func(ctx context.Context, now time.Time) (talliedDay, error) {
			since := now.Add(-lastDay).Truncate(time.Second) // the precision of links
			endCounts, err := store.EndCounts(ctx, since)
			return newTalliedDay(endCounts, since), err
		})
	r.known = records.NewCached(factsLifetime, r.facts)
	r.counted = records.NewKeyed(factsLifetime,
		func(ctx context.Context, s histogramSpan, _ time.Time) ([]storage.Quarter, error) {
			return store.Histogram(ctx, s.from, s.until, partOf(s.until.Sub(s.from)))
		})
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

// talliedDay counts the runs of the last 24 h that did not succeed.
type talliedDay struct {
	endCounts []storage.EndCount
	byJob     []JobFailures // never nil
	// runs that started and did not succeed, and runs that did not start
	failed, skipped int
}

func newTalliedDay(endCounts []storage.EndCount, since time.Time) talliedDay {
	day := talliedDay{endCounts: endCounts, byJob: failuresByJob(endCounts, since)}
	for _, f := range day.byJob {
		day.failed += f.Broken()
		day.skipped += f.NotRun()
	}
	return day
}

// recentEndCounts counts the runs of the last 24 h that did not succeed. The caller must not change
// the result.
func (r *Reader) recentEndCounts(ctx context.Context, now time.Time) (talliedDay, error) {
	endCounts, err := r.endCounts.Get(ctx, now)
	if err != nil {
		return talliedDay{}, fmt.Errorf("query failed and skipped runs: %w", err)
	}
	return endCounts, nil
}
