package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DefaultSchema is the schema of a store without Options.Schema.
const DefaultSchema = "holdfast"

// schemaName is the schema of a store. The statements of this package name DefaultSchema, and get
// the schema of their store when they are sent. They do not rely on search_path, which a pooler may
// lose and a job may change.
type schemaName string

// schemaNames are the names that need no quotes, except reserved words.
var schemaNames = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// newSchemaName checks the form of a name. "" is DefaultSchema.
func newSchemaName(name string) (schemaName, error) {
	switch {
	case name == "":
		return DefaultSchema, nil
	case !schemaNames.MatchString(name) || strings.HasPrefix(name, "pg_"):
		return "", fmt.Errorf("schema is %q, expected lower-case letters, digits and _, at most "+
			"63, without pg_ at the beginning", name)
	}
	return schemaName(name), nil
}

// checkWord returns an error for a name that is a reserved word.
func (n schemaName) checkWord(ctx context.Context, db queryer) error {
	if n == DefaultSchema {
		return nil
	}
	var needsQuotes bool
	err := db.QueryRow(ctx, "SELECT quote_ident($1::text) <> $1::text", string(n)).
		Scan(&needsQuotes)
	if err != nil {
		return wrap("check schema name", err)
	}
	if needsQuotes {
		return fmt.Errorf("schema is %q, which is a reserved word of PostgreSQL", string(n))
	}
	return nil
}

// in returns a statement of this package for the schema.
func (n schemaName) in(statement string) string {
	const qualifier = DefaultSchema + "."
	if n == "" || n == DefaultSchema || !strings.Contains(statement, qualifier) {
		return statement
	}
	var b strings.Builder
	for {
		at := strings.Index(statement, qualifier)
		if at < 0 {
			b.WriteString(statement)
			return b.String()
		}
		b.WriteString(statement[:at])
		if at > 0 && isNamePart(statement[at-1]) {
			b.WriteString(qualifier) // the end of a longer name
		} else {
			b.WriteString(string(n) + ".")
		}
		statement = statement[at+len(qualifier):]
	}
}

func isNamePart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// batch returns b with statements for the schema.
func (n schemaName) batch(b *pgx.Batch) *pgx.Batch {
	for _, query := range b.QueuedQueries {
		query.SQL = n.in(query.SQL)
	}
	return b
}

// queryer is what reads one row: a pool, a connection or a transaction.
type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// schemaQueryer sends statements for a schema.
type schemaQueryer struct {
	db     queryer
	schema schemaName
}

func (q schemaQueryer) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return q.db.QueryRow(ctx, q.schema.in(sql), args...)
}

// schemaTx is a transaction that sends statements of this package for a schema.
type schemaTx struct {
	pgx.Tx
	schema schemaName
}

func (tx schemaTx) Begin(ctx context.Context) (pgx.Tx, error) {
	savepoint, err := tx.Tx.Begin(ctx)
	return schemaTx{savepoint, tx.schema}, err
}

func (tx schemaTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return tx.Tx.Exec(ctx, tx.schema.in(sql), args...)
}

func (tx schemaTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return tx.Tx.Query(ctx, tx.schema.in(sql), args...)
}

func (tx schemaTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return tx.Tx.QueryRow(ctx, tx.schema.in(sql), args...)
}

func (tx schemaTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return tx.Tx.SendBatch(ctx, tx.schema.batch(b))
}
