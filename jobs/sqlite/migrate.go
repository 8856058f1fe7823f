package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/google/uuid"
)

// schemaVersion is the newest schema that this binary understands: the number
// of migrations it carries.
const schemaVersion = 3

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// last_token only grows, so a token is never used twice. definitions is how
	// often another definition came into force.
	createMeta = `
CREATE TABLE IF NOT EXISTS holdfast_meta (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    cluster    TEXT NOT NULL,
    version    INTEGER NOT NULL,
    min_binary INTEGER NOT NULL,
    last_token INTEGER NOT NULL,
    definitions INTEGER NOT NULL
)`
	insertMeta = `
INSERT INTO holdfast_meta (one, cluster, version, min_binary, last_token, definitions)
    VALUES (1, ?, 0, 0, 0, 0) ON CONFLICT DO NOTHING`
	hasMeta   = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'holdfast_meta'`
	readMeta  = `SELECT cluster, version, min_binary FROM holdfast_meta`
	writeMeta = `UPDATE holdfast_meta SET version = ?`
)

// SchemaError says that the file was changed by a newer binary in a way that
// this one does not understand.
type SchemaError struct {
	Path      string
	MinBinary int // what the file asks for
	Binary    int // what this binary understands
}

// Error says what to do.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("schema needs a binary that understands schema version %d, this one "+
		"understands %d: upgrade the binary",
		e.MinBinary, e.Binary)
}

type schema struct {
	cluster            uuid.UUID
	version, minBinary int
}

// migrate brings the file up to date, each migration in a transaction of its
// own. Only the holder of the file lock may call it.
func (s *Store) migrate(ctx context.Context) error {
	for {
		applied := 0
		err := s.write(ctx, "schema migration", func(tx *sql.Tx) (err error) {
			applied, err = s.migrateOnce(ctx, tx)
			return err
		})
		if err != nil || applied == 0 {
			return err
		}
		s.log.Info().Int("version", applied).Str("file", s.path).Msg("schema migrated")
	}
}

// migrateOnce applies the next migration and returns its number, or 0.
func (s *Store) migrateOnce(ctx context.Context, tx *sql.Tx) (int, error) {
	if _, err := tx.ExecContext(ctx, createMeta); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, insertMeta, uuid.New()); err != nil {
		return 0, err
	}
	current, err := s.readSchema(ctx, tx)
	if err != nil || current.version >= schemaVersion {
		return 0, err
	}
	next := current.version + 1
	text, err := migrationText(next)
	if err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, writeMeta, next)
	return next, err
}

func migrationText(number int) (string, error) {
	names, err := fs.Glob(migrations, fmt.Sprintf("migrations/%04d_*.sql", number))
	if err != nil || len(names) != 1 {
		return "", fmt.Errorf("migration %d: found %d files (%v)", number, len(names), err)
	}
	text, err := migrations.ReadFile(names[0])
	return string(text), err
}

// readSchema returns what the file says of itself, or a *SchemaError when this
// binary is too old for it. The version is 0 where there is no store yet.
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
