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
const schemaVersion = 2

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// beginMigration bounds what a migration may wait for, and how long it may
	// hold its locks while nobody says how it goes on.
	beginMigration = `
SET LOCAL lock_timeout = '2s';
SET LOCAL idle_in_transaction_session_timeout = '10s';
` + lockMigrations + `;`
	createMeta = `
CREATE SCHEMA IF NOT EXISTS holdfast;
CREATE TABLE IF NOT EXISTS holdfast.meta (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    cluster     uuid NOT NULL,
    version     int NOT NULL,
    min_binary  int NOT NULL,
    definitions bigint NOT NULL DEFAULT 0, -- how often another definition came into force
    orders      bigint NOT NULL DEFAULT 0  -- how often an operator did what replicas must hear of
);
INSERT INTO holdfast.meta (cluster, version, min_binary) VALUES (gen_random_uuid(), 0, 0)
    ON CONFLICT DO NOTHING;`
	readMeta = `SELECT cluster, version, min_binary FROM holdfast.meta`
	// requireVersion fails unless the schema has the version: another replica
	// may have applied the migration while this one waited for the lock.
	requireVersion = `
SELECT 1 / count(*) FROM holdfast.meta WHERE version = %d;`
	writeVersion = `
UPDATE holdfast.meta SET version = %d;`
	// Advisory locks belong to a database, and a database has one schema of
	// ours, so a fixed key is enough here; there is no cluster id yet.
	lockMigrations = `SELECT pg_advisory_xact_lock(hashtextextended('holdfast migrations', 0))`
)

// migrationRetry outlasts readers that hold a table which a migration wants
// to change, without making new starts queue behind it for long.
var migrationRetry = retry.Policy{Attempts: 30, Delay: 200 * time.Millisecond,
	MaxDelay: 2 * time.Second, Backoff: retry.Exponential, Jitter: 0.5}

type schema struct {
	cluster            uuid.UUID
	version, minBinary int
}

// Migrate brings the schema up to date. Each migration is one transaction in
// one round trip under an advisory lock, with a lock timeout of 2 s and retries:
// a replica that is paused or cut off half way holds no table locked. A migration
// does not rewrite a table, and builds no index on one that grows, while it has
// the table locked. Any number of replicas may call Migrate at once.
func Migrate(ctx context.Context, pool *pgxpool.Pool, log zerolog.Logger) error {
	if _, err := readSchema(ctx, pool); err == nil {
		return nil // an up to date schema may be run by a role without rights to create
	}
	if err := sendMigration(ctx, pool, createMeta); err != nil {
		return wrap("schema migration", err)
	}
	for {
		var current schema
		if err := pool.QueryRow(ctx, readMeta).
			Scan(&current.cluster, &current.version, &current.minBinary); err != nil {
			return wrap("schema migration", err)
		}
		if current.version >= schemaVersion {
			return nil
		}
		if err := applyMigration(ctx, pool, current.version+1, log); err != nil {
			return wrap("schema migration", err)
		}
	}
}

// applyMigration applies one migration, unless another replica has done so.
func applyMigration(ctx context.Context, pool *pgxpool.Pool, number int, log zerolog.Logger) error {
	text, err := migrationText(number)
	if err != nil {
		return err
	}
	err = sendMigration(ctx, pool,
		fmt.Sprintf(requireVersion, number-1)+text+fmt.Sprintf(writeVersion, number))
	switch {
	case isRefused(err):
		return nil
	case err != nil:
		return err
	}
	log.Info().Int("version", number).Msg("schema migrated")
	return nil
}

// sendMigration sends statements in one message, which PostgreSQL runs as one
// transaction. It tries again while others hold what they need.
func sendMigration(ctx context.Context, pool *pgxpool.Pool, statements string) error {
	return retry.Do(ctx, migrationRetry, func(ctx context.Context) error {
		_, err := pool.Exec(ctx, beginMigration+statements, pgx.QueryExecModeSimpleProtocol)
		return err
	}, retry.If(isLockTimeout))
}

func isLockTimeout(err error) bool { return codeOf(err) == lockNotAvailable }

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
		return s, fmt.Errorf("schema: none in this database: run `scheduler migrate` first: %w",
			jobs.ErrNotFound)
	}
	if err != nil {
		return s, wrap("schema", err)
	}
	if s.minBinary > schemaVersion {
		return s, &SchemaError{MinBinary: s.minBinary, Binary: schemaVersion}
	}
	if s.version < schemaVersion {
		return s, fmt.Errorf("schema: version %d is older than this binary's %d: run `scheduler "+
			"migrate` first: %w", s.version, schemaVersion, jobs.ErrNotFound)
	}
	return s, nil
}
