package jobs

import (
	"context"
	"errors"
)

// Tx is a fenced transaction of a run, in the database of the store or of the job. Arguments are
// $1, $2 and so on, with PostgreSQL and with SQLite. SQLite gets times as text in UTC, such as
// 2026-03-14 02:30:00. To get a transaction of the driver instead, use InTx of package postgres or
// sqlite. A Tx must not be used concurrently, or after the function that got it has returned.
type Tx interface {
	// Exec runs a statement and returns the number of affected rows.
	Exec(ctx context.Context, statement string, args ...any) (int64, error)
	// Query runs a query, and calls row for each row of the result. scan copies the columns of that
	// row into dest, as the Scan of the driver does. If row returns an error, Query stops and
	// returns this error. Within row, the transaction cannot run another statement.
	Query(ctx context.Context, row func(scan func(dest ...any) error) error, query string,
		args ...any) error
}

// errNoStore is the error of a Run of NewRun.
var errNoStore = errors.New("fenced transaction: the run has no store")

// InTx runs fn in a fenced transaction in the database of the store. The writes of fn commit only
// if the run still has its claim. InTx checks this first, and no conflicting run can get a claim
// between the check and the commit. An error of fn rolls back. InTx returns storage.ErrSuperseded
// if the claim is gone.
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
// After it, the run has succeeded: the replica only logs an error that the handler returns, and
// further fenced transactions return an error that wraps storage.ErrSuperseded.
//
// If the job has a Database, the store records the success after the commit. If the replica dies
// between the two, a recovery finds the commit in the fence of that database.
// It then succeeds without a call of fn.
func (r *Run) CompleteInTx(ctx context.Context, fn func(tx Tx) error) error {
	if r.attempt.Store == nil {
		return errNoStore
	}
	return r.attempt.Store.CompleteInTx(ctx, r, fn)
}
