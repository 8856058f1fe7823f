package fence

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Tx is a transaction of a driver. It is a jobs.Tx whose statements have the placeholders of the
// driver, such as ? with MariaDB and MySQL.
type Tx struct {
	jobs.Tx
	dialect Dialect
	// knownOnly says that the pass returns errNewName instead of inserting the row of a name.
	knownOnly bool
}

// Pgx returns a transaction of pgx, in PostgreSQL.
func Pgx(tx pgx.Tx) Tx { return Tx{Tx: pgxTx{tx}, dialect: Postgres()} }

// SQL returns a transaction of database/sql.
func SQL(tx *sql.Tx, d Dialect) Tx { return Tx{Tx: sqlTx{tx}, dialect: d} }

// prepare checks the isolation level and sets the limits of the transaction.
func (t Tx) prepare(ctx context.Context) error {
	if t.dialect.lockTable != "" {
		if _, err := t.exec(ctx, t.dialect.lockTable); err != nil {
			return err
		}
	}
	if t.dialect.readIsolation != "" {
		var level string
		if _, err := t.one(ctx, []any{&level}, t.dialect.readIsolation); err != nil {
			return err
		}
		if level != "read committed" {
			return fmt.Errorf("%w: found %s", ErrIsolation, level)
		}
	}
	if !t.dialect.bounded {
		return nil
	}
	if _, err := t.exec(ctx, limitIdle, fmt.Sprint(IdleLimit.Milliseconds())); err != nil {
		return err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	const longest = math.MaxInt32 // that PostgreSQL can set: 24.8 days
	left := min(max(time.Until(deadline).Milliseconds(), 1), longest)
	_, err := t.exec(ctx, limitStatements, fmt.Sprint(left))
	return err
}

// exec runs a statement of this package.
func (t Tx) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	n, err := t.Exec(ctx, t.dialect.in(statement), args...)
	return n, t.advise(err)
}

// advise adds to the error for a missing table of the fence how to create it.
func (t Tx) advise(err error) error {
	if err == nil || !hasCode(err, t.dialect.missing) {
		return err
	}
	return fmt.Errorf("found no tables of the fence, expected those of scheduler fence install "+
		"or fence.Install: %w", err)
}

// one scans the first row of a query of this package, and reports whether there is one.
func (t Tx) one(ctx context.Context, dest []any, query string, args ...any) (bool, error) {
	found := false
	err := t.Query(ctx, func(scan func(...any) error) error {
		found = true
		return scan(dest...)
	}, t.dialect.in(query), args...)
	return found, t.advise(err)
}

// pgxTx is a jobs.Tx of pgx.
type pgxTx struct{ tx pgx.Tx }

func (t pgxTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (t pgxTx) Query(ctx context.Context, row func(scan func(dest ...any) error) error,
	query string, args ...any) error {
	rows, err := t.tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sqlTx is a jobs.Tx of database/sql.
type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := t.tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t sqlTx) Query(ctx context.Context, row func(scan func(dest ...any) error) error,
	query string, args ...any) error {
	rows, err := t.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
