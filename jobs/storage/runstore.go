package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// JobProgress holds what the runs of a job leave for later runs.
type JobProgress interface {
	// Saved returns the state that the job's runs saved last; nil if there is none.
	Saved(ctx context.Context, job string) (json.RawMessage, error)
	// PreviousSuccess returns the latest scheduled time whose run succeeded; zero if there is none.
	// It considers only scheduled times earlier than the argument before. Runs with trigger params
	// do not count. Runs that were deleted from the history also count.
	PreviousSuccess(ctx context.Context, job string, before time.Time) (time.Time, error)
}

// RunStore gives a run access to the database of its fenced transactions: the store, or a database
// in the section databases of the configuration. No other type may wrap it, because packages
// postgres and sqlite assert its type.
type RunStore interface {
	JobProgress
	// InTx implements [jobs.Run.InTx].
	InTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error
	// CompleteInTx implements [jobs.Run.CompleteInTx].
	CompleteInTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error
	// RunStatements executes the statements in one fenced transaction, which also records the run
	// as succeeded. It returns the affected rows of each statement, which become the run's result
	// as RowsAffected. It returns ErrSuperseded if the claim is gone. It refuses statements that
	// would end the transaction. If the script permits it, other runs can share the transaction.
	RunStatements(ctx context.Context, run *jobs.Run, script Script) (rows []int64, err error)
}

// TestRuns are the runs of a test. Package holdfasttest implements it for the test stores of
// packages postgres and sqlite.
type TestRuns interface {
	JobProgress
	// CheckClaim returns an error that wraps ErrSuperseded if the claim of the run is gone.
	CheckClaim(run *jobs.Run) error
	// Committed records that a fenced transaction of the run has committed. The argument saved is
	// the state that the transaction saved; nil if it saved none.
	Committed(run *jobs.Run, saved json.RawMessage)
	// CommittedBefore reports whether an earlier attempt has committed the transaction of
	// CompleteInTx or RunStatements, which must not be executed again.
	CommittedBefore(run *jobs.Run) (bool, error)
	// Complete is called after the transaction of CompleteInTx or RunStatements has committed. If
	// that transaction ends the run, Complete records the run as succeeded.
	Complete(ctx context.Context, run *jobs.Run) error
}

// Attempt is what the engine and the stores know of a run, but its handler does not.
type Attempt = attempt.Attempt[*jobs.Run, jobs.Tx]

// CheckNotCompleted returns an error that wraps ErrSuperseded if the run's own transaction has
// recorded its end. The claim of the run is then gone.
func CheckNotCompleted(run *jobs.Run) error {
	if run.Internal(attempt.NewKey()).Completed() == "" {
		return nil
	}
	return fmt.Errorf("the run is already completed: %w", ErrSuperseded)
}

// Script is what a run executes in one fenced transaction.
type Script = attempt.Script

// Statement is one SQL statement and its arguments.
type Statement = attempt.Statement

// NamedArg is an argument with a name.
type NamedArg = attempt.NamedArg

// Lock is a name that a run locks, in another database than the store.
type Lock = attempt.Lock

// LocksOf returns the exclusive and shared requests. Fences of other databases do not check
// requests for slots.
func LocksOf(requests []locking.Request) []Lock {
	locks := make([]Lock, 0, len(requests))
	for _, r := range requests {
		if r.Mode != locking.Slotted {
			locks = append(locks, Lock{Key: r.Resource.Key(), Shared: r.Mode == locking.Shared})
		}
	}
	return locks
}

// RowsAffected is the result of a run of SQL statements.
type RowsAffected struct {
	Rows []int64 `json:"rows_affected"` // of each statement
}
