package holdfast

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

// newRegistry returns the built-in handlers and the program's own.
func newRegistry(own []jobs.Registration) (*jobs.Registry, error) {
	return jobs.NewRegistry(append([]jobs.Registration{handlers.SQL(), handlers.HTTP(nil),
		handlers.Command()}, own...)...)
}

// paramChecker lets a configuration be checked against a registry's handlers.
type paramChecker struct{ *jobs.Registry }

// Check returns what the handler refuses in the params.
func (c paramChecker) Check(handler string, params json.RawMessage) []configs.ParamProblem {
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

// jobTable turns the configuration's jobs into those of the scheduler.
func jobTable(config *configs.Config) ([]jobs.Job, error) {
	table := make([]jobs.Job, len(config.Jobs))
	for i, j := range config.Jobs {
		table[i] = jobOf(config, j)
	}
	return table, nil
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

// storage is an opened store, with what not every store can do. Each is a field of its own: a
// decorator of the store hides nothing then.
type storage struct {
	jobs.Store
	attempts jobs.Attempts
	outbox   jobs.Outbox
	restarts jobs.Restarts // nil: memcached never stands beside it
}

func ofPostgres(s *postgres.Store) storage { return storage{s, s, s, s} }

func ofSQLite(s *sqlite.Store) storage { return storage{s, s, s, nil} }

// openStore opens the configured database: as the process that runs jobs, or
// beside it.
func openStore(ctx context.Context, config *configs.Config, running bool,
	log zerolog.Logger) (storage, error) {
	if path, embedded := config.Database.SQLite(); embedded {
		store, err := sqlite.Open(ctx, path, sqlite.Options{Exclusive: running, Log: log})
		if err != nil {
			return storage{}, err
		}
		return ofSQLite(store), nil
	}
	own := max(4, config.Database.MaxConnections/3)
	store, err := postgres.Open(ctx, postgres.Options{
		URL: config.Database.URL.Reveal(), MaxConnections: own,
		WorkConnections: max(1, config.Database.MaxConnections-own),
		Migrate:         running && config.Database.Migrate, Log: log,
	})
	if err != nil {
		return storage{}, err
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

// lockBackend is a stage-1 backend, what watches it and what closes it.
type lockBackend struct {
	locking.Backend
	watch *memcached.Watch // nil where there is nothing to watch
	close func() error
}

func inMemory() *lockBackend {
	return &lockBackend{Backend: memory.New(), close: func() error { return nil }}
}

// newLockBackend returns the configured stage 1, or nil where there is none:
// PostgreSQL without memcached excludes by its grants alone. It asks nobody.
func newLockBackend(config *configs.Config, log zerolog.Logger) (*lockBackend, error) {
	m := config.Locking.Memcached
	if m == nil {
		if _, embedded := config.Database.SQLite(); embedded {
			return inMemory(), nil
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
	return &lockBackend{Backend: backend, watch: watch, close: backend.Close}, nil
}

// firstLook asks the servers how they are, before anything depends on them.
// Those that can't be reached are no error: firings go on by the store. Unsafe
// ones are where the configuration is strict.
func (b *lockBackend) firstLook(ctx context.Context, config *configs.Config) error {
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

// newLocker returns the replica's locker, or nil where there is no stage 1.
// Its keys carry the cluster's id, so that clusters that share a memcached
// never meet.
func newLocker(config *configs.Config, backend *lockBackend, store jobs.Store,
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
