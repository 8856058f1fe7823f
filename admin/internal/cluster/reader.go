package cluster

import (
	"context"
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
	ops      *operations.Operations                        // may be nil
}

// NewReader returns a reader of a store. Upcoming returns the next firing after from of each
// job, at most n of them, and may be nil, as may ops.
func NewReader(store storage.History, lock *locks.Reader, ops *operations.Operations,
	upcoming func(from time.Time, n int) []ScheduledFiring) *Reader {
	tallies := func(ctx context.Context, now time.Time) ([]storage.Tally, error) {
		return store.Tallies(ctx, now.Add(-lastDay))
	}
	return &Reader{Reader: records.Reader{Store: store}, lock: lock, upcoming: upcoming,
		tallies: records.NewCached(tallies), ops: ops}
}
