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

const readCommit = "SELECT nonce FROM holdfast_fence.commits WHERE id = ?"

// InTx is Check that also records the transaction in the table commits. So the effects of a firing
// commit at most once: it returns ErrCommitted if an earlier attempt has committed them. After any
// error, roll back.
func InTx(ctx context.Context, run *jobs.Run, tx Tx) error { return StepInTx(ctx, run, tx, "") }

// StepInTx is InTx for a job with several transactions, each with a name of at most 200 bytes. Each
// step of a firing commits at most once.
func StepInTx(ctx context.Context, run *jobs.Run, tx Tx, step string) error {
	if err := stepInTx(ctx, run, tx, step); err != nil {
		return fmt.Errorf("fence check of token %d: %w", run.Token, err)
	}
	return nil
}

func stepInTx(ctx context.Context, run *jobs.Run, tx Tx, step string) error {
	refused := check(ctx, run, tx)
	if refused != nil && !errors.Is(refused, storage.ErrSuperseded) {
		return refused
	}
	c := newCommit(run, step)
	if refused == nil {
		return c.insert(ctx, tx)
	}
	switch found, _, err := c.read(ctx, tx); {
	case err != nil:
		return err
	case found: // the run committed before it was superseded
		return ErrCommitted
	}
	return refused
}

// commit is a row of the table commits.
type commit struct {
	id, cluster, nonce string
	run                *jobs.Run
	step               string
}

func newCommit(run *jobs.Run, step string) commit {
	cluster := run.Internal(attempt.NewKey()).Cluster
	text, err := json.Marshal([]any{run.Job, run.ScheduledAt.UTC().UnixMicro(), run.Key, step})
	if err != nil {
		panic(err) // texts and a number always have JSON
	}
	return commit{id: uuid.NewSHA1(cluster, text).String(), cluster: cluster.String(),
		nonce: uuid.NewString(), run: run, step: step}
}

// insert inserts the row, or returns ErrCommitted. It waits for a transaction that has inserted the
// same row.
func (c commit) insert(ctx context.Context, tx Tx) error {
	if _, err := tx.exec(ctx, tx.dialect.insertCommit, c.id, c.cluster, c.run.Job,
		c.run.ID.String(), c.step, int64(c.run.Token), c.nonce); err != nil {
		return err
	}
	// The number of inserted rows depends on the settings of the driver.
	found, nonce, err := c.read(ctx, tx)
	switch {
	case err != nil:
		return err
	case !found:
		return errors.New("the row in holdfast_fence.commits is missing after its insert")
	case nonce != c.nonce:
		return ErrCommitted
	}
	return nil
}

func (c commit) read(ctx context.Context, tx Tx) (found bool, nonce string, err error) {
	found, err = tx.one(ctx, []any{&nonce}, readCommit+tx.dialect.current, c.id)
	return found, nonce, err
}
