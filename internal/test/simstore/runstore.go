package simstore

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// errNoSQL is the error of all transactions of runs.
var errNoSQL = errors.New("fenced transaction: the simulation has no SQL")

// runStore is a storage.RunStore without transactions.
type runStore struct{ storage.JobProgress }

// WithoutSQL returns a store of runs that has their saved state and refuses their transactions.
func WithoutSQL(saved storage.JobProgress) storage.RunStore { return runStore{saved} }

// InTx implements storage.RunStore.
func (runStore) InTx(context.Context, *jobs.Run, func(jobs.Tx) error) error { return errNoSQL }

// CompleteInTx implements storage.RunStore.
func (runStore) CompleteInTx(context.Context, *jobs.Run, func(jobs.Tx) error) error {
	return errNoSQL
}

// RunStatements implements storage.RunStore.
func (runStore) RunStatements(context.Context, *jobs.Run, storage.Script) ([]int64, error) {
	return nil, errNoSQL
}
