package storage

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// JobProgress holds what the earlier runs of a job leave for the next one.
type JobProgress interface {
	// Saved returns the state that the job's runs saved last, or nil. It does not check whether the
	// job exists.
	Saved(ctx context.Context, job string) (json.RawMessage, error)
	// PreviousSuccess returns the latest scheduled time of a successful run of the job, among the
	// times earlier than the argument; zero if there is none. Runs with trigger params do not
	// count, because they did other work. It remembers runs that were deleted from the history.
	PreviousSuccess(ctx context.Context, job string, before time.Time) (time.Time, error)
}

// RunStore has the methods with which a run uses the database of its fenced transactions. This
// database is the store or, if the job names one, a database of the section databases. The value is
// never a wrapper of a store, such as the one that records metrics, because packages postgres and
// sqlite assert its type.
type RunStore interface {
	JobProgress
	// InTx runs fn in a fenced transaction of the run: see [jobs.Run.InTx].
	InTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error
	// CompleteInTx is InTx that also records the run as succeeded: see [jobs.Run.CompleteInTx].
	CompleteInTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error
	// RunStatements runs the statements in one transaction. The transaction begins with the fence
	// check on the run's claim and ends by recording the run as succeeded. It returns the affected
	// rows of each statement, and sets them as the run's result, as RowsAffected. It returns
	// ErrSuperseded if the claim is gone, and refuses statements that would end the transaction.
	RunStatements(ctx context.Context, run *jobs.Run,
		statements []Statement) (rows []int64, err error)
}

// TestRuns are the runs of a test. The stores for tests in packages postgres and sqlite call it,
// and package holdfasttest implements it.
type TestRuns interface {
	JobProgress
	// CheckClaim returns an error that wraps ErrSuperseded if the run has lost its claim.
	CheckClaim(run *jobs.Run) error
	// Committed counts a fenced transaction of the run that has committed. Saved is the state that
	// the transaction saved, or nil.
	Committed(run *jobs.Run, saved json.RawMessage)
	// CommittedBefore reports whether an earlier attempt has committed the run's own transaction.
	// Then it is not executed again.
	CommittedBefore(run *jobs.Run) (bool, error)
	// Complete is called after the run's own transaction has committed. If that transaction ends
	// the run, it records the run as succeeded.
	Complete(ctx context.Context, run *jobs.Run) error
}

// Attempt is the part of a run that its handler does not see. Its methods and fields are for the
// engine and the stores of this module.
type Attempt = attempt.Attempt[*jobs.Run, jobs.Tx]

// Statement is one SQL statement and its arguments.
type Statement = attempt.Statement

// NamedArg is an argument with a name.
type NamedArg = attempt.NamedArg

// Lock is a name that a run locks.
type Lock = attempt.Lock

// LocksOf returns the exclusive and the shared requests, which fences outside of the store check.
// It leaves out requests for slots: several runs with different tokens may hold slots of a resource
// at the same time.
func LocksOf(requests []locking.Request) []Lock {
	var locks []Lock
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
