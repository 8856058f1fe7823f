package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
)

// InTx is the function InTx for handlers that work on either store: see [jobs.Run.InTx].
func (s *Store) InTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error {
	return s.inTx(ctx, run, onEither(fn))
}

// CompleteInTx is the function CompleteInTx for handlers that work on either store: see
// [jobs.Run.CompleteInTx].
func (s *Store) CompleteInTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error {
	return s.completeInTx(ctx, run, onEither(fn))
}

func onEither(fn func(tx jobs.Tx) error) func(pgx.Tx) error {
	return func(tx pgx.Tx) error { return fn(jobTx{tx}) }
}

// jobTx is a jobs.Tx.
type jobTx struct{ tx pgx.Tx }

func (t jobTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (t jobTx) Query(ctx context.Context, row func(scan func(dest ...any) error) error,
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
