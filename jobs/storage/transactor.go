package storage

import (
	"context"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Statement is one SQL statement and its arguments.
type Statement struct {
	SQL  string
	Args []any // by position: $1, $2
	// Named are the arguments that the statement uses as @name. It may have more of them.
	Named map[string]NamedArg
}

// NamedArg is an argument with a name.
type NamedArg struct {
	// nil, a string, int64, float64, bool, uuid.UUID, or a time.Time, which SQLite gets as text in
	// UTC, in the form of its function datetime
	Value any
	// Type is the PostgreSQL type of the argument; "" is the type that the statement expects in its
	// place.
	Type string
}

// Transactor is a store that can run the statements of a job in its own database.
type Transactor interface {
	// RunStatements runs the statements in one transaction. The transaction begins with the fence
	// check on the run's claim and ends by recording the run as succeeded. It returns the affected
	// rows of each statement, and sets them as the run's result, as RowsAffected. It returns
	// ErrSuperseded if the claim is gone, and refuses statements that would end the transaction.
	RunStatements(ctx context.Context, run *jobs.Run,
		statements []Statement) (rows []int64, err error)
}

// RowsAffected is the result of a run of SQL statements.
type RowsAffected struct {
	Rows []int64 `json:"rows_affected"` // of each statement
}
