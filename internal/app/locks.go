package app

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// LockBackend is a backend of advisory locks with what belongs to it.
type LockBackend struct {
	locking.Backend
	Close func() error     // ends its connections
	watch *memcached.Watch // nil for locks in memory
}

// InMemory returns locks for the replicas of one process.
func InMemory() *LockBackend {
	return &LockBackend{Backend: memory.New(), Close: func() error { return nil }}
}

// NewLockBackend returns the configured backend of advisory locks, or nil if
// there is none: without memcached, PostgreSQL excludes by its grants alone. It
// opens no connection.
func NewLockBackend(config *configs.Config, log zerolog.Logger) (*LockBackend, error) {
	m := config.Locking.Memcached
	if m == nil {
		if _, embedded := config.Database.SQLite(); embedded {
			return InMemory(), nil
		}
		return nil, nil
	}
	options := memcached.Options{
		Servers: m.Servers, Timeout: m.Timeout, MaxIdle: m.MaxIdle, User: m.Username,
		Password: m.Password.Reveal(),
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

// firstLook asks the servers how they are, before anything depends on them.
// Those that can't be reached are no error: firings go on by the store. Unsafe
// ones are where the configuration is strict.
func (b *LockBackend) firstLook(ctx context.Context, config *configs.Config) error {
	if b == nil || b.watch == nil {
		return nil
	}
	b.watch.Look(ctx)
	if err := b.watch.Check(); err != nil && config.Locking.Memcached.Strict {
		return fmt.Errorf("locking.memcached.strict: %w", err)
	}
	return nil
}

// lockServers identifies the servers that a configuration locks on, for
// replicas to compare.
func lockServers(config *configs.Config) string {
	if m := config.Locking.Memcached; m != nil {
		return memcached.Fingerprint(m.Servers)
	}
	return "none"
}

// NewLocker returns the replica's locker, or nil if there are no advisory locks.
// Its keys carry the cluster's id, so that clusters that share a memcached
// never meet.
func NewLocker(config *configs.Config, backend *LockBackend, store jobs.Store,
	told func(locking.Event), log zerolog.Logger) (*locking.Locker, error) {
	if backend == nil {
		return nil, nil
	}
	return locking.New(backend.Backend, locking.Options{
		OnEvent: told, Namespace: store.ClusterID().String(), Lease: config.Locking.Lease,
		Restore: true, Sessions: store,
		Log: log.With().Str("replica", config.Replica.Name).Logger(),
	})
}
