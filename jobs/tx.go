package jobs

import (
	"context"
	"errors"
)

// Tx is a fenced transaction of a run, in the database of the store or of the job. Arguments are
// $1, $2 and so on, with PostgreSQL and with SQLite. Packages postgres and sqlite give the driver's
// own type instead. It must not be used concurrently, or after the function that got it has
// returned.
type Tx interface {
	// Exec runs a statement and returns the number of affected rows.
	Exec(ctx context.Context, statement string, args ...any) (int64, error)
	// Query runs a query, and calls row for each row of the result with its Scan, until row
	// returns an error. Within row, the transaction cannot run another statement.
	Query(ctx context.Context, row func(scan func(dest ...any) error) error, query string,
		args ...any) error
}

// errNoStore is the error of a Run of NewRun.
var errNoStore = errors.New("fenced transaction: the run has no store")

// InTx runs fn in a fenced transaction in the database of the store. The writes of fn commit only
// if the run has its claim, and no conflicting run gets a claim before the commit. An error of fn
// rolls back. InTx returns storage.ErrSuperseded if the claim is gone.
//
// With SQLite, the transaction is the only writer of the file, so keep it short.
//
// If the job has a Database, the transaction is in that database, whose fence decides instead of
// the claim: see docs/guarantees.md.
func (r *Run) InTx(ctx context.Context, fn func(tx Tx) error) error {
	if r.attempt.Store == nil {
		return errNoStore
	}
	return r.attempt.Store.InTx(ctx, r, fn)
}

// CompleteInTx is InTx that also records the run as succeeded in the same transaction. So the
// effects of the job and its completion commit together. fn should be the last step of the handler.
//
// If the job has a Database, the store records the success after the commit. If a replica dies in
// between, the fence of the database lets a further attempt or a recovery succeed without fn.
func (r *Run) CompleteInTx(ctx context.Context, fn func(tx Tx) error) error {
	if r.attempt.Store == nil {
		return errNoStore
	}
	return r.attempt.Store.CompleteInTx(ctx, r, fn)
}
