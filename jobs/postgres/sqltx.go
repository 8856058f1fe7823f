package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// sqlTx is a transaction of database/sql as a pgx.Tx, or a savepoint in it. It has only what the
// statements of a trigger need, and works with each driver for PostgreSQL that has $1 as a
// placeholder. Its other methods panic.
type sqlTx struct {
	pgx.Tx // nil
	tx     *sql.Tx
	closed bool
}

const (
	beginSQL    = "SAVEPOINT holdfast_trigger"
	commitSQL   = "RELEASE SAVEPOINT holdfast_trigger"
	rollbackSQL = "ROLLBACK TO SAVEPOINT holdfast_trigger"
)

// Begin sets the savepoint. There is one at a time.
func (t *sqlTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if _, err := t.tx.ExecContext(ctx, beginSQL); err != nil {
		return nil, err
	}
	return &sqlTx{tx: t.tx}, nil
}

// Commit releases the savepoint.
func (t *sqlTx) Commit(ctx context.Context) error {
	if t.closed {
		return pgx.ErrTxClosed
	}
	t.closed = true
	_, err := t.tx.ExecContext(ctx, commitSQL)
	return err
}

// Rollback undoes what followed the savepoint, and releases it.
func (t *sqlTx) Rollback(ctx context.Context) error {
	if t.closed {
		return pgx.ErrTxClosed
	}
	t.closed = true
	if _, err := t.tx.ExecContext(ctx, rollbackSQL); err != nil {
		return err
	}
	_, err := t.tx.ExecContext(ctx, commitSQL)
	return err
}

// Exec implements pgx.Tx.
func (t *sqlTx) Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag,
	error) {
	result, err := t.tx.ExecContext(ctx, statement, sqlArgs(args)...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	n, err := result.RowsAffected()
	return pgconn.NewCommandTag(fmt.Sprint("INSERT 0 ", n)), err
}

// Query implements pgx.Tx.
func (t *sqlTx) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	rows, err := t.tx.QueryContext(ctx, query, sqlArgs(args)...)
	if err != nil {
		return nil, err
	}
	return &sqlRows{rows: rows}, nil
}

// QueryRow implements pgx.Tx.
func (t *sqlTx) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return sqlRow{t.tx.QueryRowContext(ctx, query, sqlArgs(args)...)}
}

// SendBatch executes the statements one after the other, and calls the functions that read their
// results.
func (t *sqlTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		results := sqlResults{ctx: ctx, tx: t, query: q}
		err := error(nil)
		if q.Fn != nil {
			err = q.Fn(results)
		} else {
			_, err = results.Exec()
		}
		if err != nil {
			return sqlResults{err: err}
		}
	}
	return sqlResults{}
}

// sqlResults executes one statement of a batch, or is the outcome of the batch.
type sqlResults struct {
	pgx.BatchResults // nil

	ctx   context.Context
	tx    *sqlTx
	query *pgx.QueuedQuery
	err   error
}

// Exec implements pgx.BatchResults.
func (r sqlResults) Exec() (pgconn.CommandTag, error) {
	return r.tx.Exec(r.ctx, r.query.SQL, r.query.Arguments...)
}

// Query implements pgx.BatchResults.
func (r sqlResults) Query() (pgx.Rows, error) {
	return r.tx.Query(r.ctx, r.query.SQL, r.query.Arguments...)
}

// QueryRow implements pgx.BatchResults.
func (r sqlResults) QueryRow() pgx.Row {
	return r.tx.QueryRow(r.ctx, r.query.SQL, r.query.Arguments...)
}

// Close returns the first error of the statements.
func (r sqlResults) Close() error { return r.err }

// sqlArgs returns arguments that each driver can encode. Types of Go that only pgx knows become
// text.
func sqlArgs(args []any) []any {
	encoded := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case uuid.UUID:
			encoded[i] = v.String()
		case time.Duration:
			encoded[i] = intervalText(v)
		case *time.Duration:
			if v != nil {
				encoded[i] = intervalText(*v)
			}
		default:
			encoded[i] = arg
		}
	}
	return encoded
}

// intervalText returns a duration as PostgreSQL reads an interval, in whole microseconds. Releases
// before 15 refuse numbers of more than 31 bits, so it is not one number of microseconds.
func intervalText(d time.Duration) string {
	sign, us := "", d.Microseconds()
	if us < 0 {
		sign, us = "-", -us
	}
	seconds := us / 1e6
	return fmt.Sprintf("%s%d:%02d:%02d.%06d", sign, seconds/3600, seconds/60%60, seconds%60, us%1e6)
}

// sqlRow is a row of database/sql as a pgx.Row.
type sqlRow struct{ row *sql.Row }

// Scan implements pgx.Row.
func (r sqlRow) Scan(dest ...any) error {
	err := r.row.Scan(sqlDest(dest)...)
	if errors.Is(err, sql.ErrNoRows) {
		return pgx.ErrNoRows
	}
	return err
}

// sqlRows are rows of database/sql as pgx.Rows, for pgx.CollectRows.
type sqlRows struct {
	pgx.Rows // nil
	rows     *sql.Rows
	err      error // of Close
}

func (r *sqlRows) Next() bool             { return r.rows.Next() }
func (r *sqlRows) Scan(dest ...any) error { return r.rows.Scan(sqlDest(dest)...) }
func (r *sqlRows) Err() error             { return errors.Join(r.rows.Err(), r.err) }
func (r *sqlRows) Close()                 { r.err = errors.Join(r.err, r.rows.Close()) }

// CommandTag implements pgx.Rows. database/sql does not know it.
func (r *sqlRows) CommandTag() pgconn.CommandTag { return pgconn.CommandTag{} }

// sqlDest returns destinations that database/sql can scan into.
func sqlDest(dest []any) []any {
	wrapped := make([]any, len(dest))
	for i, d := range dest {
		switch v := d.(type) {
		case *json.RawMessage:
			wrapped[i] = (*[]byte)(v)
		case *[]time.Time:
			wrapped[i] = pgtype.NewMap().SQLScanner(v)
		default:
			wrapped[i] = d
		}
	}
	return wrapped
}
