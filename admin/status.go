package admin

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// StatusOptions are what a status outside of a Server depends on. Store is required.
type StatusOptions struct {
	Store      storage.History
	StoreName  string                 // as in Options
	Operations *operations.Operations // nil: deliveries are not checked
	Memcached  Memcached              // nil: memcached is not checked
	Rules      Rules
}

// statusTimeout bounds the queries of ReadStatus.
const statusTimeout = 10 * time.Second

// ReadStatus returns the status for a program that is no replica. A store that does not answer is
// a problem of the status, and no error.
func ReadStatus(ctx context.Context, o StatusOptions) Status {
	return NewStatusReader(o)(ctx)
}

// UnreachableStatus returns the status of a program that could not open the store.
func UnreachableStatus(ctx context.Context, o StatusOptions, err error) Status {
	with := Options{StoreName: o.StoreName, Memcached: o.Memcached, Rules: o.Rules}
	return with.local().Status(ctx, cluster.Snapshot{}, err.Error(), nil)
}

// NewStatusReader returns a function that reads the status, like ReadStatus. It caches counts of
// failed runs between calls, and may be called concurrently.
func NewStatusReader(o StatusOptions) func(ctx context.Context) Status {
	reader := cluster.NewReader(o.Store, locks.NewReader(o.Store, locks.Sources{}), o.Operations,
		nil)
	with := Options{StoreName: o.StoreName, Memcached: o.Memcached, Rules: o.Rules}
	local := with.local()
	return func(ctx context.Context) Status {
		bounded, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		snap, err := reader.Snapshot(bounded)
		if err != nil {
			return UnreachableStatus(ctx, o, err)
		}
		return local.Status(ctx, snap, "", nil)
	}
}
