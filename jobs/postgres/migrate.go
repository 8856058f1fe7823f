package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/retry"
)

// schemaVersion is the newest schema that this binary understands: the number
// of migrations it carries.
const schemaVersion = 3

//go:embed migrations/*.sql
var migrations embed.FS

const (
	createMeta = `
CREATE SCHEMA IF NOT EXISTS holdfast;
CREATE TABLE IF NOT EXISTS holdfast.meta (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    cluster    uuid NOT NULL,
    version    int NOT NULL,
    min_binary int NOT NULL,
    definitions bigint NOT NULL DEFAULT 0 -- how often another definition came into force
)`
	insertMeta = `INSERT INTO holdfast.meta (cluster, version, min_binary) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING`
	readMeta   = `SELECT cluster, version, min_binary FROM holdfast.meta`
	writeMeta  = `UPDATE holdfast.meta SET version = $1`
	// Advisory locks belong to a database, and a database has one schema of
	// ours, so a fixed key is enough here; there is no cluster id yet.
	lockMigrations = `SELECT pg_advisory_xact_lock(hashtextextended('holdfast migrations', 0))`
)

// migrationRetry outlasts readers that hold a table which a migration wants
// to change, without making new starts queue behind it for long.
var migrationRetry = retry.Policy{Attempts: 30, Delay: 200 * time.Millisecond, MaxDelay: 2 * time.Second, Backoff: retry.Exponential, Jitter: 0.5}

type schema struct {
	cluster            uuid.UUID
	version, minBinary int
}

// Migrate brings the schema up to date, each migration in a transaction of
// its own under an advisory lock, with a lock timeout of 2 s and retries. It
// may be called by any number of replicas at once.
func Migrate(ctx context.Context, pool *pgxpool.Pool, log zerolog.Logger) error {
	if current, err := readSchema(ctx, pool); err == nil && current.version >= schemaVersion {
		return nil // an up to date schema may be run by a role without rights to create
	}
	for {
		more := false
		err := retry.Do(ctx, migrationRetry, func(ctx context.Context) (err error) {
			more, err = migrateOnce(ctx, pool, log)
			return err
		}, retry.If(isLockTimeout))
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
}

func isLockTimeout(err error) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == "55P03"
}

// migrateOnce applies the next migration, if any, and reports whether it did.
func migrateOnce(ctx context.Context, pool *pgxpool.Pool, log zerolog.Logger) (bool, error) {
	applied := 0
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '2s'"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, lockMigrations); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, createMeta); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, insertMeta, uuid.New()); err != nil {
			return err
		}
		var current schema
		if err := tx.QueryRow(ctx, readMeta).Scan(&current.cluster, &current.version, &current.minBinary); err != nil {
			return err
		}
		if current.version >= schemaVersion {
			return nil
		}
		applied = current.version + 1
		text, err := migrationText(applied)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, text); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, writeMeta, applied)
		return err
	})
	if err != nil {
		return false, wrap("schema migration", err)
	}
	if applied > 0 {
		log.Info().Int("version", applied).Msg("schema migrated")
	}
	return applied > 0, nil
}

func migrationText(number int) (string, error) {
	names, err := fs.Glob(migrations, fmt.Sprintf("migrations/%04d_*.sql", number))
	if err != nil || len(names) != 1 {
		return "", fmt.Errorf("migration %d: found %d files (%v)", number, len(names), err)
	}
	text, err := migrations.ReadFile(names[0])
	return string(text), err
}

// readSchema returns what the database says of itself, or a *SchemaError when
// this binary is too old for it.
func readSchema(ctx context.Context, pool *pgxpool.Pool) (schema, error) {
	var s schema
	err := pool.QueryRow(ctx, readMeta).Scan(&s.cluster, &s.version, &s.minBinary)
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == "42P01" {
		return s, fmt.Errorf("schema: none in this database: run `scheduler migrate` first: %w", jobs.ErrNotFound)
	}
	if err != nil {
		return s, wrap("schema", err)
	}
	if s.minBinary > schemaVersion {
		return s, &SchemaError{MinBinary: s.minBinary, Binary: schemaVersion}
	}
	if s.version < schemaVersion {
		return s, fmt.Errorf("schema: version %d is older than this binary's %d: run `scheduler migrate` first: %w", s.version, schemaVersion, jobs.ErrNotFound)
	}
	return s, nil
}
