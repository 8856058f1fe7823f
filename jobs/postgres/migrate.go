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
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// schemaVersion is the newest schema that this binary understands. It equals the number of
// migration files.
const schemaVersion = 1

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// beginMigration bounds how long a migration waits for locks, and how long it holds them when
	// its client sends nothing more.
	beginMigration = `
SET LOCAL lock_timeout = '2s';
SET LOCAL idle_in_transaction_session_timeout = '10s';
` + lockMigrations + `;`
	createMeta = `
CREATE SCHEMA IF NOT EXISTS %s;
CREATE TABLE IF NOT EXISTS holdfast.meta (
    one             boolean PRIMARY KEY DEFAULT true CHECK (one),
    cluster         uuid NOT NULL,
    version         int NOT NULL,
    min_binary      int NOT NULL,
    definitions     bigint NOT NULL DEFAULT 0, -- counts changes of active definitions
    control_version bigint NOT NULL DEFAULT 0, -- counts changes of the control state
    home            text NOT NULL DEFAULT ''   -- detects restores: see readHome
);
INSERT INTO holdfast.meta (cluster, version, min_binary) VALUES (gen_random_uuid(), 0, 0)
    ON CONFLICT DO NOTHING;`
	readMeta = `SELECT cluster, version, min_binary FROM holdfast.meta`
	// requireVersion fails unless the schema has the version: another replica may have applied the
	// migration while this one waited for the lock.
	requireVersion = `
SELECT 1 / count(*) FROM holdfast.meta WHERE version = %d;`
	writeVersion = `
UPDATE holdfast.meta SET version = %d;`
	// Advisory locks belong to a database, which may have several schemas of Holdfast. The cluster
	// id does not exist yet.
	lockMigrations = `SELECT pg_advisory_xact_lock(hashtextextended('migrate holdfast.meta', 0))`
)

// migrationRetry waits for readers of a table that a migration changes. Each try is short, so that
// new starts do not queue behind it for long.
var migrationRetry = retry.Policy{Attempts: 30, Delay: 200 * time.Millisecond,
	MaxDelay: 2 * time.Second, Backoff: retry.Exponential, Jitter: 0.5}

type schema struct {
	cluster            uuid.UUID
	version, minBinary int
}

// migrate applies the migrations that the schema lacks, up to the given version. Each migration is
// one transaction in one round trip under an advisory lock, with a lock timeout of 2 s and retries.
// So a replica that is paused or disconnected in the middle holds no table locked. While a
// migration has a table locked, it neither rewrites the table nor builds an index on a table that
// grows. Any number of replicas may migrate at once.
func migrate(ctx context.Context, pool *dbPool, files fs.FS, version int,
	log zerolog.Logger) error {
	if s, err := readSchema(ctx, pool); err == nil && s.version >= version {
		return nil // the role may lack the right to create tables
	}
	if err := sendMigration(ctx, pool, fmt.Sprintf(createMeta, pool.schema)); err != nil {
		return wrap("migrate schema", err)
	}
	for {
		var current schema
		if err := pool.QueryRow(ctx, readMeta).
			Scan(&current.cluster, &current.version, &current.minBinary); err != nil {
			return wrap("migrate schema", err)
		}
		if current.version >= version {
			return nil
		}
		if err := applyMigration(ctx, pool, files, current.version+1, log); err != nil {
			return wrap("migrate schema", err)
		}
	}
}

// applyMigration applies one migration unless another replica has applied it.
func applyMigration(ctx context.Context, pool *dbPool, files fs.FS, number int,
	log zerolog.Logger) error {
	text, err := migrationText(files, number)
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

// sendMigration sends statements in one message, which PostgreSQL runs as one transaction. It
// retries while other transactions hold locks that the statements need.
func sendMigration(ctx context.Context, pool *dbPool, statements string) error {
	return retry.Do(ctx, migrationRetry, func(ctx context.Context) error {
		_, err := pool.Exec(ctx, beginMigration+statements, pgx.QueryExecModeSimpleProtocol)
		return err
	}, retry.If(isLockTimeout))
}

func isLockTimeout(err error) bool { return codeOf(err) == lockNotAvailable }

func migrationText(files fs.FS, number int) (string, error) {
	names, err := fs.Glob(files, fmt.Sprintf("migrations/%04d_*.sql", number))
	if err != nil || len(names) != 1 {
		return "", fmt.Errorf("migration %d: found %d files (%v)", number, len(names), err)
	}
	text, err := fs.ReadFile(files, names[0])
	return string(text), err
}

// requireSchema is readSchema with advice for a schema that is missing or too old.
func requireSchema(ctx context.Context, db queryer) (schema, error) {
	s, err := readSchema(ctx, db)
	if errors.Is(err, storage.ErrNotFound) {
		err = fmt.Errorf("%w: run `scheduler migrate` first", err)
	}
	return s, err
}

// readSchema returns the cluster id and the schema version of the database. It returns a
// *SchemaError when this binary is too old for the schema, and storage.ErrNotFound when the schema
// is missing or too old.
func readSchema(ctx context.Context, db queryer) (schema, error) {
	var s schema
	err := db.QueryRow(ctx, readMeta).Scan(&s.cluster, &s.version, &s.minBinary)
	if codeOf(err) == "42P01" {
		return s, fmt.Errorf("read schema: not in this database: %w", storage.ErrNotFound)
	}
	if err != nil {
		return s, wrap("read schema", err)
	}
	if s.minBinary > schemaVersion {
		return s, &SchemaError{MinBinary: s.minBinary, Binary: schemaVersion}
	}
	if s.version < schemaVersion {
		return s, fmt.Errorf("read schema: version %d is older than version %d of this binary: %w",
			s.version, schemaVersion, storage.ErrNotFound)
	}
	return s, nil
}
