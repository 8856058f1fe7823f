package admin

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// StatusOptions are what a verdict outside of a Server depends on. Store is required.
type StatusOptions struct {
	Store      storage.History
	StoreName  string                 // as in Options
	Operations *operations.Operations // nil: deliveries are not checked
	Memcached  Memcached              // nil: memcached is not checked
	Rules      Rules
}

// statusTimeout bounds the queries of ReadStatus.
const statusTimeout = 10 * time.Second

// ReadStatus returns the verdict for a program that is no replica. A store that does not answer is
// a problem of the verdict, and no error.
func ReadStatus(ctx context.Context, o StatusOptions) Verdict {
	return NewStatusReader(o)(ctx)
}

// UnreachableStatus returns the verdict of a program that could not open the store.
func UnreachableStatus(ctx context.Context, o StatusOptions, err error) Verdict {
	with := Options{StoreName: o.StoreName, Memcached: o.Memcached, Rules: o.Rules}
	return with.local().Verdict(ctx, cluster.Snapshot{}, err.Error(), nil)
}

// NewStatusReader returns a function that reads the verdict, like ReadStatus. It caches counts of
// failed runs between calls, and may be called concurrently.
func NewStatusReader(o StatusOptions) func(ctx context.Context) Verdict {
	reader := cluster.NewReader(o.Store, locks.NewReader(o.Store, locks.Sources{}), o.Operations,
		nil)
	with := Options{StoreName: o.StoreName, Memcached: o.Memcached, Rules: o.Rules}
	local := with.local()
	return func(ctx context.Context) Verdict {
		bounded, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		snap, err := reader.Snapshot(bounded)
		if err != nil {
			return UnreachableStatus(ctx, o, err)
		}
		return local.Verdict(ctx, snap, "", nil)
	}
}
