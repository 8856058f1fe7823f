package app

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/admin/status"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// statusInterval is how often a replica reads the status for its metrics.
const statusInterval = 15 * time.Second

// StatusOptions returns the options for the status of the configured cluster. Locks is nil if
// the caller does not check memcached.
func StatusOptions(config *configs.Config, store storage.History, ops *operations.Operations,
	locks *LockBackend) status.Options {
	o := status.Options{Store: store, StoreName: storeName(config), Operations: ops,
		Rules: status.Rules{FailingAfter: config.Status.FailingAfter,
			MaxOffset: config.Clock.MaxOffset}}
	if locks != nil && locks.watch != nil {
		o.Memcached = locks.watch
	}
	return o
}

// statusOptions returns the options for the status as this replica sees it.
func (r *Replica) statusOptions(config *configs.Config) status.Options {
	options := StatusOptions(config, r.timed, r.operations, r.locks)
	options.Databases = r.databasesOfStatus
	return options
}

// CheckLocks checks the memcached servers once. It does nothing for locks in memory.
func (b *LockBackend) CheckLocks(ctx context.Context) {
	if b.watch != nil {
		b.watch.Look(ctx)
	}
}

// Servers returns the result of the last check of the memcached servers. It is empty for locks in
// memory.
func (b *LockBackend) Servers() []memcached.Health {
	if b.watch == nil {
		return nil
	}
	return b.watch.Servers()
}

// watchStatus reads the status for the metrics until ctx ends, and then returns nil.
func (r *Replica) watchStatus(ctx context.Context) error {
	read := status.NewReader(r.statusOptions(r.config.Load()))
	ticker := time.NewTicker(statusInterval)
	defer ticker.Stop()
	for {
		if v := read(ctx); ctx.Err() == nil {
			severity := string(v.Severity)
			r.status.Store(&severity)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// severities returns the metric of the status: for each severity, whether it is the current one. It
// returns nil before the first check.
func (r *Replica) severities() map[string]bool {
	current := r.status.Load()
	if current == nil {
		return nil
	}
	found := make(map[string]bool)
	for _, severity := range status.Severities() {
		found[string(severity)] = string(severity) == *current
	}
	return found
}
