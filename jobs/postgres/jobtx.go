package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/fence"
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
	return func(tx pgx.Tx) error { return fn(fence.Pgx(tx)) }
}
