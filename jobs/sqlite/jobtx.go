package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// InTx implements storage.RunStore. The function InTx gives the transaction of database/sql.
func (s *Store) InTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error {
	return s.inTx(ctx, run, onEither(fn))
}

// CompleteInTx implements storage.RunStore. The function CompleteInTx gives the transaction of
// database/sql.
func (s *Store) CompleteInTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error {
	return s.completeInTx(ctx, run, onEither(fn))
}

func onEither(fn func(tx jobs.Tx) error) func(*sql.Tx) error {
	return func(tx *sql.Tx) error { return fn(jobTx{tx}) }
}

// jobTx is a jobs.Tx.
type jobTx struct{ tx *sql.Tx }

func (t jobTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	return execCounted(ctx, t.tx, statement, storedArgs(args)...)
}

func (t jobTx) Query(ctx context.Context, row func(scan func(dest ...any) error) error,
	query string, args ...any) (err error) {
	rows, err := t.tx.QueryContext(ctx, query, storedArgs(args)...)
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

// storedArgs returns the arguments of a statement, with times as statements of sql jobs get them.
// The driver would store them as Time.String writes them, which functions of SQLite do not read.
func storedArgs(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		if named, ok := arg.(sql.NamedArg); ok {
			named.Value = storedArg(named.Value)
			args[i] = named
		} else {
			args[i] = storedArg(arg)
		}
	}
	return args
}

func storedArg(arg any) any {
	// this also reads pointers, and types such as sql.NullTime
	value, err := driver.DefaultParameterConverter.ConvertValue(arg)
	if at, ok := value.(time.Time); ok && err == nil {
		return storedTime(at)
	}
	return arg
}
