package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestStore is the store of runs in tests of handlers: see package holdfasttest. Its fenced
// transactions are savepoints of one transaction of the test, one at a time. It may be used
// concurrently.
type TestStore struct {
	storage.JobProgress

	runs  storage.TestRuns
	tx    pgx.Tx
	turn  chan struct{}   // holds a value while a fenced transaction is open
	saved json.RawMessage // by the open fenced transaction
}

var _ storage.RunStore = (*TestStore)(nil)

// NewTestStore returns a store whose fenced transactions are savepoints of tx.
func NewTestStore(tx pgx.Tx, runs storage.TestRuns) *TestStore {
	return &TestStore{JobProgress: runs, runs: runs, tx: tx, turn: make(chan struct{}, 1)}
}

// Beside returns a store of other runs in the same transaction of the test.
func (s *TestStore) Beside(runs storage.TestRuns) *TestStore {
	return &TestStore{JobProgress: runs, runs: runs, tx: s.tx, turn: s.turn}
}

// InTx implements storage.RunStore.
func (s *TestStore) InTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error {
	return s.inTx(ctx, run, onEither(fn))
}

// CompleteInTx implements storage.RunStore.
func (s *TestStore) CompleteInTx(ctx context.Context, run *jobs.Run,
	fn func(tx jobs.Tx) error) error {
	return s.completeInTx(ctx, run, onEither(fn))
}

// RunStatements implements storage.RunStore.
func (s *TestStore) RunStatements(ctx context.Context, run *jobs.Run,
	script storage.Script) ([]int64, error) {
	return runStatements(ctx, run, script.Statements, s.completeInTx)
}

// fence checks only the claim, because tx may belong to the handler.
func (s *TestStore) fence(_ context.Context, _ pgx.Tx, run *jobs.Run) error {
	if err := s.runs.CheckClaim(run); err != nil {
		return fmt.Errorf("fence check of token %d: %w", run.Token, err)
	}
	return nil
}

func (s *TestStore) inTx(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error {
	if err := storage.CheckNotCompleted(run); err != nil {
		return wrap("fenced transaction", err)
	}
	if err := s.fence(ctx, nil, run); err != nil {
		return wrap("fenced transaction", err)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return wrap("fenced transaction", context.Cause(ctx))
	}
	defer func() { <-s.turn }()
	s.saved = nil
	point, err := s.tx.Begin(ctx)
	if err != nil {
		return wrap("fenced transaction", err)
	}
	if err := fn(point); err != nil {
		return errors.Join(err, rollBackTo(ctx, point))
	}
	if err := requireOpen(point); err != nil {
		return err
	}
	if err := s.fence(ctx, nil, run); err != nil { // the run may have lost its claim meanwhile
		return errors.Join(err, rollBackTo(ctx, point))
	}
	if err := point.Commit(ctx); err != nil {
		return wrap("commit", err)
	}
	s.runs.Committed(run, s.saved)
	return nil
}

// rollBackTo rolls back to a savepoint. On a closed connection there is nothing to roll back.
func rollBackTo(ctx context.Context, point pgx.Tx) error {
	if point.Conn().IsClosed() {
		return nil
	}
	return wrap("roll back", point.Rollback(context.WithoutCancel(ctx)))
}

func (s *TestStore) completeInTx(ctx context.Context, run *jobs.Run,
	fn func(tx pgx.Tx) error) error {
	done, err := s.runs.CommittedBefore(run)
	if err != nil || done {
		return err
	}
	if err := s.inTx(ctx, run, fn); err != nil {
		return err
	}
	return s.runs.Complete(ctx, run)
}

// saveInTx keeps the state until the fenced transaction commits. In a transaction of the handler's
// own, which this store cannot follow, the state is dropped.
func (s *TestStore) saveInTx(ctx context.Context, tx pgx.Tx, run *jobs.Run,
	saved json.RawMessage) error {
	if err := s.fence(ctx, tx, run); err != nil {
		return wrap("save state", err)
	}
	s.saved = saved
	return nil
}
