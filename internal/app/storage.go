package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Storage is an open store. Its optional interfaces are separate fields, so that a decorator of the
// store does not hide them.
type Storage struct {
	storage.Store
	RunStore      storage.RunStore
	LoginAttempts storage.LoginAttempts
	SignOuts      storage.SignOuts
	Events        storage.AuditWriter
	Outbox        storage.Outbox
	Tokens        storage.Tokens
	Restarts      storage.Restarts // nil with SQLite, which does not allow memcached
	Postgres      *postgres.Store  // nil with SQLite
}

// ofPostgres returns the storage of an open PostgreSQL store.
func ofPostgres(s *postgres.Store) Storage { return Storage{s, s, s, s, s, s, s, s, s} }

// OfSQLite returns the storage of an open SQLite file.
func OfSQLite(s storage.Embedded) Storage { return Storage{s, s, s, s, s, s, s, nil, nil} }

// Connection is how a program connects to its database.
type Connection struct {
	Driver storage.Driver // opens a SQLite file; nil: the program has no SQLite
	Pool   *pgxpool.Pool  // of the program, to PostgreSQL; nil: the database of the configuration
}

// OpenStore opens the configured database. Running says that this process runs jobs: it then
// migrates the schema, and has the SQLite file for itself.
func OpenStore(
	ctx context.Context, config *configs.Config, by Connection, running bool, log zerolog.Logger,
) (Storage, error) {
	if path, embedded := config.Database.SQLite(); embedded {
		if err := by.check(config); err != nil {
			return Storage{}, err
		}
		store, err := by.Driver(ctx, path, running, log)
		if err != nil {
			return Storage{}, err
		}
		return OfSQLite(store), nil
	}
	own := max(4, config.Database.MaxConnections/3)
	options := postgres.Options{
		URL: config.Database.URL.Reveal(), JobsURL: config.Database.JobsURL.Reveal(),
		MaxConnections:  own,
		WorkConnections: config.Database.MaxConnections - own,
		Schema:          config.Database.Schema,
		Migrate:         running && config.Database.Migrate, Log: log,
	}
	if by.Pool != nil {
		options.URL, options.Pool = "", by.Pool
	}
	store, err := postgres.Open(ctx, options)
	if err != nil {
		return Storage{}, err
	}
	return ofPostgres(store), nil
}

// check returns an error for a database that the program cannot open.
func (c Connection) check(config *configs.Config) error {
	switch path, embedded := config.Database.SQLite(); {
	case embedded && c.Driver == nil:
		return fmt.Errorf("found the SQLite file %s as the database of a program without SQLite, "+
			"expected holdfast.WithPostgres, or holdfast.WithDriver(sqlite.Driver) with the "+
			"package github.com/holdfast-dev/holdfast/jobs/sqlite", path)
	case !embedded && c.Pool != nil && !config.Database.JobsURL.IsZero():
		return errors.New("found database.jobs_url and a pool of the program, expected one of " +
			"them: jobs use the connections of the pool")
	case !embedded && c.Pool != nil:
		return postgres.CheckPool(c.Pool.Config())
	}
	return nil
}

// storeName returns the name of the database for the page.
func storeName(config *configs.Config) string {
	if _, embedded := config.Database.SQLite(); embedded {
		return "SQLite"
	}
	return "PostgreSQL"
}

// openStore opens the store, unless it is shared, and the metrics that measure its calls.
func (r *Replica) openStore(ctx context.Context, config *configs.Config) (err error) {
	if r.shared != nil {
		r.store = r.shared.Store
	} else if r.store, err = OpenStore(ctx, config, r.connection, true, r.log); err != nil {
		return err
	}
	r.metrics = metrics.New(metrics.Options{Names: config.Metrics.Names, Version: Version()})
	r.timed = r.metrics.Store(r.store)
	return nil
}

// RaiseTokensBy raises the fencing tokens after a restore of the database, and records that in the
// audit log.
func (s Storage) RaiseTokensBy(ctx context.Context, by storage.Action) (storage.RaisedTokens,
	error) {
	raised, err := s.Tokens.RaiseTokens(ctx)
	if err != nil {
		return raised, err
	}
	return raised, s.Events.WriteAudit(ctx, by, storage.AuditRaiseTokens, "database", raised)
}
