package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	readCommit = "SELECT nonce, done FROM holdfast_fence.commits WHERE id = ?"
	endCommit  = "UPDATE holdfast_fence.commits SET done = 1 WHERE id = ? AND nonce = ?"

	setSavepoint     = "SAVEPOINT holdfast_fence"
	releaseSavepoint = "RELEASE SAVEPOINT holdfast_fence"
)

// InTx is Check that also adds a row to the table commits. So the effects of a firing commit at
// most once. InTx returns ErrCommitted if an earlier attempt has committed them. A handler that
// returns this error has succeeded. After any error, roll back.
//
// InTx is for the last transaction of a handler, and its commit should be the last step. StepInTx
// is for earlier transactions.
//
// InTx cannot see how the transaction ends. In MariaDB and MySQL, a statement such as CREATE TABLE
// commits it, and a deadlock (error 1213) rolls all of it back. Later statements are not fenced.
// [DoSQL] detects both.
func InTx(ctx context.Context, run *jobs.Run, tx Tx) error { return StepInTx(ctx, run, tx, "") }

// StepInTx is InTx for a job with several transactions. Each step has a name of at most 200 bytes,
// and commits at most once for each firing. StepInTx returns ErrStepCommitted if an earlier attempt
// has committed the step. The handler then goes on with the next step. After InTx in the same
// attempt, StepInTx returns ErrNotLast.
func StepInTx(ctx context.Context, run *jobs.Run, tx Tx, step string) error {
	c := newCommit(run, step, 1)
	err := c.begin(ctx, tx)
	if err == nil {
		run.Internal(attempt.NewKey()).BeginStep(step, c.nonce)
	}
	return err
}

// begin makes the pass and inserts the row.
func (c commit) begin(ctx context.Context, tx Tx) error {
	err := c.refuseStep()
	if err == nil {
		err = c.record(ctx, tx)
	}
	if err != nil {
		return fmt.Errorf("fence check of token %d: %w", c.run.Token, err)
	}
	return nil
}

// refuseStep returns an error if the step cannot follow the other transactions of the attempt.
func (c commit) refuseStep() error {
	inside := c.run.Internal(attempt.NewKey())
	switch {
	case inside.StepCommitted(c.step):
		return fmt.Errorf("%w: %q", ErrStepRepeated, c.step)
	case c.step != "" && inside.StepBegun(""):
		return fmt.Errorf("%w: step %q", ErrNotLast, c.step)
	}
	return nil
}

func (c commit) record(ctx context.Context, tx Tx) error {
	refused := check(ctx, c.run, tx)
	if refused != nil && !errors.Is(refused, storage.ErrSuperseded) {
		return refused
	}
	if refused == nil {
		return c.insert(ctx, tx)
	}
	found, err := c.read(ctx, tx)
	switch {
	case err != nil:
		return err
	case found != nil: // the run committed before it was superseded
		return c.earlier(*found)
	}
	return refused
}

// end marks the row as done, which is the last statement of a transaction. It returns ErrEnded if
// the row is gone, because the function has rolled back.
func (c commit) end(ctx context.Context, tx Tx) error {
	rows, err := tx.exec(ctx, endCommit, c.id, c.nonce)
	if err != nil {
		return fmt.Errorf("end of the fenced transaction: %w", err)
	}
	if rows != 1 {
		return fmt.Errorf("%w: its row in holdfast_fence.commits is missing", ErrEnded)
	}
	return nil
}

// commit is a row of the table commits.
type commit struct {
	id, cluster, nonce string
	run                *jobs.Run
	step               string
	done               int16 // 1 unless end follows
}

func newCommit(run *jobs.Run, step string, done int16) commit {
	cluster := run.Internal(attempt.NewKey()).Cluster
	text, err := json.Marshal([]any{run.Job, run.ScheduledAt.UTC().UnixMicro(), run.Key,
		run.KeyActor, step})
	if err != nil {
		panic(err) // texts and a number always have JSON
	}
	return commit{id: uuid.NewSHA1(cluster, text).String(), cluster: cluster.String(),
		nonce: uuid.NewString(), run: run, step: step, done: done}
}

// insert inserts the row, or returns the error for the row of an earlier transaction. It waits for
// a transaction that has inserted the same row.
func (c commit) insert(ctx context.Context, tx Tx) error {
	if _, err := tx.exec(ctx, tx.dialect.insertCommit, c.id, c.cluster, c.run.Job,
		c.run.ID.String(), c.step, int64(c.run.Token), c.nonce, c.done); err != nil {
		return err
	}
	// The number of inserted rows depends on the settings of the driver.
	found, err := c.read(ctx, tx)
	switch {
	case err != nil:
		return err
	case found == nil:
		return errors.New("the row in holdfast_fence.commits is missing after its insert")
	case found.nonce != c.nonce:
		return c.earlier(*found)
	}
	return nil
}

// committed is what a row of the table commits says.
type committed struct {
	nonce string
	done  bool
}

// earlier returns the error for the row of an earlier transaction.
func (c commit) earlier(found committed) error {
	switch {
	case !found.done:
		return ErrPartial
	case c.run.Internal(attempt.NewKey()).Began(found.nonce):
		return fmt.Errorf("%w: %q", ErrStepRepeated, c.step)
	case c.step != "":
		return fmt.Errorf("%w: %q", ErrStepCommitted, c.step)
	}
	return ErrCommitted
}

// isCommitted reports whether the error says that an earlier attempt has committed the transaction.
func isCommitted(err error) bool {
	return errors.Is(err, ErrCommitted) || errors.Is(err, ErrStepCommitted)
}

// read returns the row, or nil.
func (c commit) read(ctx context.Context, tx Tx) (*committed, error) {
	var row committed
	var done int16
	found, err := tx.one(ctx, []any{&row.nonce, &done}, readCommit+tx.dialect.current, c.id)
	if err != nil || !found {
		return nil, err
	}
	row.done = done == 1
	return &row, nil
}
