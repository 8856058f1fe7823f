package jobs

import (
	"context"
)

// Statement is one SQL statement and its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// Transactor is a store that can run a job's statements in the database that
// holds it.
type Transactor interface {
	// RunStatements runs the statements in one transaction that begins with
	// the fence check on the run's claim and ends with the run recorded as
	// succeeded: both or nothing. It reports the rows that each statement
	// affected, and makes them the run's result, as RowsAffected. It returns ErrSuperseded when the
	// claim is gone, and refuses statements that would end the transaction.
	RunStatements(ctx context.Context, run *Run, statements []Statement) (rows []int64, err error)
}

// RowsAffected is the result of a run of statements.
type RowsAffected struct {
	Rows []int64 `json:"rows_affected"` // by each statement
}
