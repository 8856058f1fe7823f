package sqlite

import (
	"context"
	"database/sql"

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
	result, err := t.tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t jobTx) Query(ctx context.Context, row func(scan func(dest ...any) error) error,
	query string, args ...any) (err error) {
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
