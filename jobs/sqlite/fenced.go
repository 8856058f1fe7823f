package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	checkFence = `SELECT 1 FROM holdfast_claims WHERE token = ?1 AND run = ?2`

	anyTemporary = `SELECT EXISTS (SELECT 1 FROM sqlite_temp_schema)`
)

// InTx runs fn in a fenced transaction of the run in the store's file. The writes of fn commit only
// if the run's claim exists. Otherwise InTx returns storage.ErrSuperseded. An error of fn rolls
// back. fn must neither commit nor roll back. Its temporary tables, views and triggers end with the
// transaction.
//
// While fn runs, the store starts and records nothing. If fn calls a method of the store that
// writes, this call waits until its context ends, and fails.
func InTx(ctx context.Context, run *jobs.Run, fn func(tx *sql.Tx) error) error {
	s, err := storeOf(run)
	if err != nil {
		return err
	}
	return s.inTx(ctx, run, fn)
}

// CompleteInTx is InTx that also records the run as succeeded, in the same transaction. fn should
// be the last step of the handler.
func CompleteInTx(ctx context.Context, run *jobs.Run, fn func(tx *sql.Tx) error) error {
	s, err := storeOf(run)
	if err != nil {
		return err
	}
	return s.completeInTx(ctx, run, fn)
}

// runStore is the store of a run whose fenced transactions have the type of database/sql: *Store,
// or *TestStore in a test of a handler.
type runStore interface {
	inTx(ctx context.Context, run *jobs.Run, fn func(tx *sql.Tx) error) error
	completeInTx(ctx context.Context, run *jobs.Run, fn func(tx *sql.Tx) error) error
	saveInTx(ctx context.Context, tx *sql.Tx, run *jobs.Run, saved json.RawMessage) error
}

func storeOf(run *jobs.Run) (runStore, error) {
	s, ok := run.Internal(attempt.NewKey()).Store.(runStore)
	if !ok {
		return nil, fmt.Errorf("fenced transaction: the run's store is %T, not SQLite",
			run.Internal(attempt.NewKey()).Store)
	}
	return s, nil
}

func (s *Store) inTx(ctx context.Context, run *jobs.Run, fn func(tx *sql.Tx) error) error {
	what := "fenced transaction"
	if err := storage.CheckNotCompleted(run); err != nil {
		return wrap(what, err)
	}
	if err := s.enter(ctx); err != nil {
		return wrap(what, err)
	}
	defer s.leave()
	fenced, end := s.fencing.begin(ctx, run)
	defer end()
	defer s.discardTemporary(ctx)
	s.announceCancel() // somebody may have asked for it while the run waited for the writer
	err := s.transact(fenced, func(tx *sql.Tx) error {
		if err := fence(ctx, tx, run); err != nil {
			return err
		}
		return fn(tx)
	})
	if err != nil && errors.Is(context.Cause(fenced), errEnded) {
		err = errors.Join(errEnded, err)
	}
	return wrap(what, err)
}

// discardTemporary replaces the connection of the writer if the job has left temporary tables,
// views or triggers on it. The statements of others would use them instead of the tables of the
// file. The caller has the writer.
func (s *Store) discardTemporary(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return // the next transaction opens another connection, or reports the error
	}
	defer conn.Close()
	var left bool
	if err := conn.QueryRowContext(ctx, anyTemporary).Scan(&left); err != nil || left {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the pool then closes it
	}
}

// fence is the fence check. The claim cannot be deleted before the transaction ends, because there
// is one writer.
func fence(ctx context.Context, tx *sql.Tx, run *jobs.Run) error {
	var one int
	err := tx.QueryRowContext(ctx, checkFence, run.Token, run.ID).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("fence check of token %d: %w", run.Token, storage.ErrSuperseded)
	}
	return err
}

func (s *Store) completeInTx(ctx context.Context, run *jobs.Run, fn func(tx *sql.Tx) error) error {
	err := s.inTx(ctx, run, func(tx *sql.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		end := storage.FinishRequest{Run: run.ID, Token: run.Token, State: jobs.Succeeded,
			Output: run.OutputText(), Result: run.Result(),
			Saved: run.Internal(attempt.NewKey()).Saved()}
		done, err := finish(ctx, tx, []storage.FinishRequest{end})
		if err == nil && !done[0] {
			err = storage.ErrSuperseded
		}
		return err
	})
	if err == nil {
		run.Internal(attempt.NewKey()).Complete(string(jobs.Succeeded))
	}
	return err
}

// RunStatements implements storage.RunStore. It returns ErrTransactionControl for statements that
// would end the transaction or access other files. It refuses strings with more than one statement.
func (s *Store) RunStatements(ctx context.Context, run *jobs.Run,
	script storage.Script) ([]int64, error) {
	return runStatements(ctx, run, script.Statements, CompleteInTx)
}

func runStatements(ctx context.Context, run *jobs.Run,
	statements []storage.Statement,
	complete func(ctx context.Context, run *jobs.Run, fn func(tx *sql.Tx) error) error,
) ([]int64, error) {
	for i, statement := range statements {
		if err := checkStatement(statement.SQL); err != nil {
			return nil, fmt.Errorf("statement %d: %w", i+1, err)
		}
	}
	rows := make([]int64, 0, len(statements))
	err := complete(ctx, run, func(tx *sql.Tx) error {
		for i, statement := range statements {
			text, args := numbered(statement)
			affected, err := execCounted(ctx, tx, text, args...)
			if err != nil {
				return fmt.Errorf("statement %d: %w", i+1, err)
			}
			fmt.Fprintf(run.Output(), "statement %d: %s\n", i+1,
				plural.Of(int(affected), "row", "rows"))
			rows = append(rows, affected)
		}
		return run.SetResult(storage.RowsAffected{Rows: rows})
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}
