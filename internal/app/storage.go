package app

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

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
