package app

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// LockBackend is a backend of advisory locks and the watch of its servers.
type LockBackend struct {
	locking.Backend
	Close func() error     // closes its connections
	watch *memcached.Watch // nil for locks in memory
}

// InMemory returns advisory locks for the replicas of one process.
func InMemory() *LockBackend {
	return &LockBackend{Backend: memory.New(), Close: func() error { return nil }}
}

// NewLockBackend returns the configured backend of advisory locks. It opens no connection. It
// returns nil for PostgreSQL without memcached, where grants alone exclude.
func NewLockBackend(config *configs.Config, log zerolog.Logger) (*LockBackend, error) {
	m := config.Locking.Memcached
	if m == nil {
		if _, embedded := config.Database.SQLite(); embedded {
			return InMemory(), nil
		}
		return nil, nil
	}
	options := memcached.Options{
		Servers: m.Servers, Timeout: m.Timeout, User: m.Username, Password: m.Password.Reveal(),
	}
	if m.TLS != nil {
		var err error
		if options.TLS, err = m.TLS.Config(); err != nil {
			return nil, fmt.Errorf("locking.memcached.tls: %w", err)
		}
	}
	backend, err := memcached.New(options)
	if err != nil {
		return nil, err
	}
	watch := backend.Watch(memcached.WatchOptions{
		Every: m.WatchEvery, Log: log.With().Str("replica", config.Replica.Name).
			Str("when_unavailable", config.Locking.WhenUnavailable).Logger(),
	})
	return &LockBackend{Backend: backend, watch: watch, Close: backend.Close}, nil
}

// checkServers asks the servers for their state and settings. An unreachable server is no error,
// because firings continue with the store alone. Unsafe settings are an error if the configuration
// is strict.
func (b *LockBackend) checkServers(ctx context.Context, config *configs.Config) error {
	if b == nil || b.watch == nil {
		return nil
	}
	b.watch.Look(ctx)
	if err := b.watch.Check(); err != nil && config.Locking.Memcached.Strict {
		return fmt.Errorf("locking.memcached.strict: %w", err)
	}
	return nil
}

// lockServers returns a fingerprint of the configured lock servers. Replicas compare it.
func lockServers(config *configs.Config) string {
	if m := config.Locking.Memcached; m != nil {
		return memcached.Fingerprint(m.Servers)
	}
	return "none"
}

// LockStore is what a locker needs of the store.
type LockStore interface {
	locking.Sessions
	ClusterID() uuid.UUID
}

// NewLocker returns the locker of the replica, or nil if backend is nil. Its keys contain the id of
// the cluster, so that clusters can share a memcached. OnEvent may be nil.
func NewLocker(
	config *configs.Config, backend *LockBackend, store LockStore,
	onEvent func(locking.Event), log zerolog.Logger,
) (*locking.Locker, error) {
	if backend == nil {
		return nil, nil
	}
	return locking.New(backend.Backend, locking.Options{
		OnEvent: onEvent, Namespace: store.ClusterID().String(), Lease: config.Locking.Lease,
		Restore: true, Sessions: store,
		Log: log.With().Str("replica", config.Replica.Name).Logger(),
	})
}

// openLocks makes the locker, and the backend unless it is shared.
func (r *Replica) openLocks(ctx context.Context, config *configs.Config) (err error) {
	if r.shared != nil {
		r.locks = r.shared.Locks
	} else {
		if r.locks, err = NewLockBackend(config, r.log); err != nil {
			return err
		}
		if err = r.locks.checkServers(ctx, config); err != nil {
			return err
		}
	}
	r.locker, err = NewLocker(config, r.timedLocks(), r.store, r.metrics.Lock, r.log)
	return err
}

// timedLocks returns the advisory locks, with their calls measured if they are in memcached.
func (r *Replica) timedLocks() *LockBackend {
	if r.locks == nil || r.locks.watch == nil {
		return r.locks
	}
	timed := *r.locks
	timed.Backend = r.metrics.Backend(r.locks.Backend)
	return &timed
}

// runWatch adds to parts the watch of the memcached servers and the record of their restarts.
func (r *Replica) runWatch(ctx context.Context, parts *errgroup.Group) {
	if r.locks == nil || r.locks.watch == nil {
		return
	}
	parts.Go(func() error { return r.locks.watch.Run(ctx) })
	if r.store.Restarts == nil {
		return
	}
	recorder := restartRecorder{servers: r.locks.watch, store: r.store.Restarts,
		replica: r.config.Load().Replica.Name, log: r.log}
	parts.Go(func() error { return recorder.run(ctx) })
}
