package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	base "modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestStore is the store of runs in tests of handlers: see package holdfasttest. Its fenced
// transactions are transactions of a database of the test. It may be used concurrently.
type TestStore struct {
	storage.JobProgress

	runs  storage.TestRuns
	db    *sql.DB
	turn  chan struct{}   // holds a value while a fenced transaction is open
	saved json.RawMessage // by the open fenced transaction
}

var _ storage.RunStore = (*TestStore)(nil)

// NewTestStore returns a store whose fenced transactions are those of db.
func NewTestStore(db *sql.DB, runs storage.TestRuns) *TestStore {
	return &TestStore{JobProgress: runs, runs: runs, db: db, turn: make(chan struct{}, 1)}
}

// OpenInMemory returns an empty database in memory. It has one connection, so a query waits for the
// end of an open transaction. The database is gone when it is closed.
func OpenInMemory() (*sql.DB, error) {
	opener, err := base.NewConnector("file::memory:?_pragma=foreign_keys(1)")
	if err != nil {
		return nil, wrap("database in memory", err)
	}
	db := sql.OpenDB(opener)
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	return db, nil
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

func (s *TestStore) checkClaim(run *jobs.Run) error {
	if err := s.runs.CheckClaim(run); err != nil {
		return fmt.Errorf("fence check of token %d: %w", run.Token, err)
	}
	return nil
}

func (s *TestStore) inTx(ctx context.Context, run *jobs.Run, fn func(tx *sql.Tx) error) error {
	const what = "fenced transaction"
	if err := storage.CheckNotCompleted(run); err != nil {
		return wrap(what, err)
	}
	if err := s.checkClaim(run); err != nil {
		return wrap(what, err)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return wrap(what, context.Cause(ctx))
	}
	defer func() { <-s.turn }()
	s.saved = nil
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return wrap(what, err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	if err := fn(tx); err != nil {
		return wrap(what, err)
	}
	if err := s.checkClaim(run); err != nil { // the run may have lost it meanwhile
		return wrap(what, err)
	}
	if err := tx.Commit(); err != nil {
		return wrap(what, err)
	}
	s.runs.Committed(run, s.saved)
	return nil
}

func (s *TestStore) completeInTx(ctx context.Context, run *jobs.Run,
	fn func(tx *sql.Tx) error) error {
	done, err := s.runs.CommittedBefore(run)
	if err != nil || done {
		return err
	}
	if err := s.inTx(ctx, run, fn); err != nil {
		return err
	}
	return s.runs.Complete(ctx, run)
}

// saveInTx keeps the state until the fenced transaction commits.
func (s *TestStore) saveInTx(_ context.Context, _ *sql.Tx, run *jobs.Run,
	saved json.RawMessage) error {
	if err := s.checkClaim(run); err != nil {
		return wrap("save state", err)
	}
	s.saved = saved
	return nil
}
