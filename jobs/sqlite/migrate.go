package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/google/uuid"
)

// schemaVersion is the newest schema that this binary understands. It equals the number of
// migration files.
const schemaVersion = 1

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// last_token only grows, so that no token is used twice. definitions counts changes of active
	// definitions, and control_version changes of the control state.
	createMeta = `
CREATE TABLE IF NOT EXISTS holdfast_meta (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    cluster         TEXT NOT NULL,
    version         INTEGER NOT NULL,
    min_binary      INTEGER NOT NULL,
    last_token      INTEGER NOT NULL,
    definitions     INTEGER NOT NULL,
    control_version INTEGER NOT NULL DEFAULT 0
)`
	insertMeta = `
INSERT INTO holdfast_meta (one, cluster, version, min_binary, last_token, definitions)
    VALUES (1, ?, 0, 0, 0, 0) ON CONFLICT DO NOTHING`
	hasMeta   = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'holdfast_meta'`
	readMeta  = `SELECT cluster, version, min_binary FROM holdfast_meta`
	writeMeta = `UPDATE holdfast_meta SET version = ?`
)

// SchemaError reports that this binary does not understand the schema of the file, which a newer
// binary has changed.
type SchemaError struct {
	Path      string
	MinBinary int // the version that the file requires
	Binary    int // the version that this binary understands
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("this binary understands version %d, the database "+
		"requires version %d: upgrade the binary", e.Binary, e.MinBinary)
}

type schema struct {
	cluster            uuid.UUID
	version, minBinary int
}

// migrate applies the migrations of files up to the given version, each in its own transaction.
// Only the holder of the file lock may call it.
func (s *Store) migrate(ctx context.Context, files fs.FS, version int) error {
	for {
		applied := 0
		err := s.write(ctx, "migrate schema", func(tx *sql.Tx) (err error) {
			applied, err = s.migrateOnce(ctx, tx, files, version)
			return err
		})
		if err != nil || applied == 0 {
			return err
		}
		s.log.Info().Int("version", applied).Str("file", s.path).Msg("schema migrated")
	}
}

// migrateOnce applies the next migration and returns its number, or 0.
func (s *Store) migrateOnce(ctx context.Context, tx *sql.Tx, files fs.FS,
	version int) (int, error) {
	if _, err := tx.ExecContext(ctx, createMeta); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, insertMeta, uuid.New()); err != nil {
		return 0, err
	}
	current, err := s.readSchema(ctx, tx)
	if err != nil || current.version >= version {
		return 0, err
	}
	next := current.version + 1
	text, err := migrationText(files, next)
	if err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, writeMeta, next)
	return next, err
}

func migrationText(files fs.FS, number int) (string, error) {
	names, err := fs.Glob(files, fmt.Sprintf("migrations/%04d_*.sql", number))
	if err != nil || len(names) != 1 {
		return "", fmt.Errorf("migration %d: found %d files (%v)", number, len(names), err)
	}
	text, err := fs.ReadFile(files, names[0])
	return string(text), err
}

// readSchema returns the cluster id and the schema version of the file, or a *SchemaError when this
// binary is too old for the schema. The version of a file without a store is 0.
func (s *Store) readSchema(ctx context.Context, from queryer) (schema, error) {
	var current schema
	tables := 0
	if err := from.QueryRowContext(ctx, hasMeta).Scan(&tables); err != nil || tables == 0 {
		return current, err
	}
	err := from.QueryRowContext(ctx, readMeta).
		Scan(&current.cluster, &current.version, &current.minBinary)
	if err == nil && current.minBinary > schemaVersion {
		err = &SchemaError{Path: s.path, MinBinary: current.minBinary, Binary: schemaVersion}
	}
	return current, err
}
