package admin

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// StatusOptions are the sources and the rules of the status that NewStatusReader reads. Store is
// required.
type StatusOptions struct {
	Store      storage.History
	StoreName  string                 // as in Options
	Operations *operations.Operations // nil: deliveries are not checked
	Memcached  Memcached              // nil: memcached is not checked
	Databases  func() []JobDatabase   // as in Options
	Rules      Rules
}

// statusTimeout bounds the queries of a status.
const statusTimeout = 10 * time.Second

// NewStatusReader returns a function that reads the status, for a program that is not a server. If
// the store does not answer, the status lists this as a problem. The function caches counts of
// failed runs between calls, and may be called concurrently.
func NewStatusReader(o StatusOptions) func(ctx context.Context) Status {
	reader := cluster.NewReader(o.Store, locks.NewReader(o.Store, locks.Sources{}), o.Operations,
		nil)
	with := Options{StoreName: o.StoreName, Memcached: o.Memcached, Databases: o.Databases,
		Rules: o.Rules}
	local := with.local()
	return func(ctx context.Context) Status {
		bounded, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		snap, err := reader.Snapshot(bounded)
		if err != nil {
			return local.Status(ctx, cluster.Snapshot{}, err.Error(), nil)
		}
		return local.Status(ctx, snap, "", nil)
	}
}
