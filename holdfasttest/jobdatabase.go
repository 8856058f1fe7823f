package holdfasttest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/fence"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// jobDatabase is a database of jobs other than the store. It may be used concurrently.
type jobDatabase struct {
	storage.RunStore // of a databaseRuns
	name             string
	db               *sql.DB // nil with the transaction of the test
	downSince        atomic.Pointer[time.Time]
}

// Available implements engine.Database.
func (d *jobDatabase) Available() error {
	since := d.downSince.Load()
	if since == nil {
		return nil
	}
	return fmt.Errorf("database %s is not available since %s: outage of the test", d.name,
		shown(*since))
}

// State implements engine.Database.
func (d *jobDatabase) State() storage.DatabaseState {
	since := d.downSince.Load()
	if since == nil {
		return storage.DatabaseState{}
	}
	return storage.DatabaseState{Error: "outage of the test", Since: *since}
}

// InTx implements storage.RunStore.
func (d *jobDatabase) InTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error {
	if err := d.Available(); err != nil {
		return err
	}
	return d.RunStore.InTx(ctx, run, fn)
}

// CompleteInTx implements storage.RunStore.
func (d *jobDatabase) CompleteInTx(ctx context.Context, run *jobs.Run,
	fn func(tx jobs.Tx) error) error {
	if err := d.Available(); err != nil {
		return err
	}
	return d.RunStore.CompleteInTx(ctx, run, fn)
}

// RunStatements implements storage.RunStore.
func (d *jobDatabase) RunStatements(ctx context.Context, run *jobs.Run,
	script storage.Script) ([]int64, error) {
	if err := d.Available(); err != nil {
		return nil, err
	}
	return d.RunStore.RunStatements(ctx, run, script)
}

// databaseRuns are runs whose fenced transactions are in a database other than the store. Their
// own transaction does not end them, and commits at most once for each firing.
type databaseRuns struct {
	storage.TestRuns // of the store

	mu   sync.Mutex
	done map[storage.Firing]bool
}

func newDatabaseRuns(store storage.TestRuns) *databaseRuns {
	return &databaseRuns{TestRuns: store, done: map[storage.Firing]bool{}}
}

func firingOf(run *jobs.Run) storage.Firing {
	return storage.Firing{Job: run.Job, ScheduledAt: run.ScheduledAt.UTC().Round(0), Key: run.Key,
		KeyActor: run.KeyActor}
}

// CommittedBefore implements storage.TestRuns.
func (r *databaseRuns) CommittedBefore(run *jobs.Run) (bool, error) {
	inside := run.Internal(attempt.NewKey())
	if inside.StepCommitted("") {
		return false, fmt.Errorf("%w: %q", fence.ErrStepRepeated, "")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done[firingOf(run)] {
		return false, nil
	}
	inside.CommitStep("")
	fmt.Fprintln(run.Output(), "an earlier attempt has committed the transaction")
	return true, nil
}

// Complete implements storage.TestRuns.
func (r *databaseRuns) Complete(_ context.Context, run *jobs.Run) error {
	run.Internal(attempt.NewKey()).CommitStep("")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[firingOf(run)] = true
	return nil
}
