// Package status reads the status of a cluster by the rules in docs/operations.md, for programs
// that show no page.
package status

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The types of Options and of a status, which are those of package admin.
type (
	// Status is the status of the cluster.
	Status = cluster.Status
	// Severity is how urgent a problem is.
	Severity = cluster.Severity
	// Rules are the limits of the status that the configuration sets.
	Rules = cluster.Rules
	// Memcached reports the health of the memcached servers. *memcached.Watch implements it.
	Memcached = cluster.Memcached
	// JobDatabase is a database in which jobs have their tables, as one replica sees it.
	JobDatabase = cluster.JobDatabase
)

// Severities returns all severities, from the least to the most urgent.
func Severities() []Severity { return cluster.Severities() }

// Options are the sources and the rules of a status. Store is required.
type Options struct {
	Store     storage.History
	StoreName string // for people, such as PostgreSQL; "" means "The store"
	// Operations reads deliveries of webhooks. Nil: they are not checked.
	Operations *operations.Operations
	Memcached  Memcached // nil: memcached is not checked
	// Databases returns the databases of jobs by name. It must be safe for concurrent use and must
	// not block. Nil: there are none.
	Databases func() []JobDatabase
	Rules     Rules
}

// timeout bounds the queries of a status.
const timeout = 10 * time.Second

// NewReader returns a function that reads the status. If the store does not answer, the status
// lists this as a problem. The function caches counts of failed runs between calls, and may be
// called concurrently.
func NewReader(o Options) func(ctx context.Context) Status {
	runs := records.Reader{Store: o.Store}
	reader := cluster.NewReader(runs, locks.NewReader(runs, locks.Sources{}), o.Operations, nil)
	local := cluster.Local{Servers: o.Memcached, Databases: o.Databases,
		StoreName: cmp.Or(o.StoreName, "The store"), Rules: o.Rules, Hold: new(cluster.Hold)}
	return func(ctx context.Context) Status {
		bounded, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		snap, err := reader.Snapshot(bounded)
		if err != nil {
			return local.Status(ctx, cluster.Snapshot{}, err.Error(), nil)
		}
		return local.Status(ctx, snap, "", nil)
	}
}
