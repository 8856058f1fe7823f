package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/handlers"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// Version returns the version of the module that the binary was built from.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// NewRegistry returns the built-in handlers and the program's own.
func NewRegistry(own []jobs.Registration) (*jobs.Registry, error) {
	return jobs.NewRegistry(append([]jobs.Registration{handlers.SQL(), handlers.HTTP(nil),
		handlers.Command()}, own...)...)
}

// ParamChecker lets a configuration be checked against a registry's handlers.
type ParamChecker struct{ *jobs.Registry }

// Check returns what the handler refuses in the params.
func (c ParamChecker) Check(handler string, params json.RawMessage) []configs.ParamProblem {
	_, err := c.Bind(handler, params)
	var refused *jobs.ParamsError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refused):
		return []configs.ParamProblem{{Message: err.Error()}}
	}
	problems := make([]configs.ParamProblem, len(refused.Problems))
	for i, p := range refused.Problems {
		problems[i] = configs.ParamProblem(p)
	}
	return problems
}

// Jobs returns the configuration's jobs as the scheduler takes them.
func Jobs(config *configs.Config) []jobs.Job {
	table := make([]jobs.Job, len(config.Jobs))
	for i, j := range config.Jobs {
		table[i] = jobOf(config, j)
	}
	return table
}

func jobOf(config *configs.Config, j configs.Job) jobs.Job {
	group := config.Group(j.Group)
	return jobs.Job{
		Name: j.Name, Description: j.Description, Schedule: j.Schedule, Handler: j.Handler,
		Params: j.Params.JSON(), Resources: j.Requests,
		Wait: j.Wait.Policy(), Reserve: reserveOf(j.Wait.Reserve),
		Overlap: jobs.Overlap(j.Overlap), Misfire: jobs.Misfire(j.Misfire.NobodyUp),
		MisfireThreshold: j.MisfireThreshold,
		MisfireBy: jobs.MisfireRules{
			NoWorker: jobs.Misfire(j.Misfire.NoWorker), Paused: jobs.Misfire(j.Misfire.Paused),
			LockHeld: jobs.Misfire(j.Misfire.LockHeld),
			Limit:    j.Misfire.Limit, MaxAge: j.Misfire.MaxAge,
		},
		Group: j.Group, GroupLimits: jobs.GroupLimits{PerCluster: group.PerCluster,
			PerReplica: group.PerReplica}, Priority: j.Priority,
		Deadline: j.Deadline, Timeout: j.Timeout, Retry: j.Retry, Recover: j.Recover,
		Hooks: hooksOf(config, j.Name),
	}
}

// reserveOf returns a job's option: in a configuration 0 is never.
func reserveOf(configured time.Duration) time.Duration {
	if configured == 0 {
		return locking.NeverReserve
	}
	return configured
}

// Storage is an opened store, with what only some stores can do as fields of
// their own, so that a decorator of the store hides nothing.
type Storage struct {
	jobs.Store
	Attempts jobs.Attempts
	Outbox   jobs.Outbox
	Restarts jobs.Restarts // nil with SQLite, beside which memcached is refused
}

func ofPostgres(s *postgres.Store) Storage { return Storage{s, s, s, s} }

// OfSQLite returns the storage of an opened SQLite file.
func OfSQLite(s *sqlite.Store) Storage { return Storage{s, s, s, nil} }

// OpenStore opens the configured database: as the process that runs jobs, or
// beside it.
func OpenStore(ctx context.Context, config *configs.Config, running bool,
	log zerolog.Logger) (Storage, error) {
	if path, embedded := config.Database.SQLite(); embedded {
		store, err := sqlite.Open(ctx, path, sqlite.Options{Exclusive: running, Log: log})
		if err != nil {
			return Storage{}, err
		}
		return OfSQLite(store), nil
	}
	own := max(4, config.Database.MaxConnections/3)
	store, err := postgres.Open(ctx, postgres.Options{
		URL: config.Database.URL.Reveal(), MaxConnections: own,
		WorkConnections: max(1, config.Database.MaxConnections-own),
		Migrate:         running && config.Database.Migrate, Log: log,
	})
	if err != nil {
		return Storage{}, err
	}
	return ofPostgres(store), nil
}

// storeName is what the page calls the store.
func storeName(config *configs.Config) string {
	if _, embedded := config.Database.SQLite(); embedded {
		return "SQLite"
	}
	return "PostgreSQL"
}

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
