package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/fence"
)

// InTx implements storage.RunStore. The function InTx gives the transaction of pgx.
func (s *Store) InTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error {
	return s.inTx(ctx, run, onEither(fn))
}

// CompleteInTx implements storage.RunStore. The function CompleteInTx gives the transaction of pgx.
func (s *Store) CompleteInTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error {
	return s.completeInTx(ctx, run, onEither(fn))
}

func onEither(fn func(tx jobs.Tx) error) func(pgx.Tx) error {
	return func(tx pgx.Tx) error { return fn(fence.Pgx(tx)) }
}
