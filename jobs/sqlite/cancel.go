package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	cancelWaiting = `
UPDATE holdfast_runs SET state = 'cancelled', reason = 'cancelled', detail = ?2, blocker = NULL,
    finished_at = ?3, wait_since = NULL
WHERE id IN (SELECT value FROM json_each(?1))
    AND +state = 'waiting'` // the sign keeps SQLite from using the index on state

	askToCancel = `
INSERT INTO holdfast_cancels (run, session, requested_at, requested_by) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (run) DO NOTHING`

	// forgetCancels deletes the cancels of ended runs, however they ended. A run that waits for its
	// next attempt has not ended.
	forgetCancels = `
DELETE FROM holdfast_cancels WHERE run NOT IN (
    SELECT r.id FROM holdfast_cancels c CROSS
        JOIN holdfast_runs r ON r.id = c.run WHERE r.state IN ('waiting', 'running'))`
)

// Cancel implements storage.Actions. While the run is inside a transaction, that transaction has
// the writer. ControlState then returns the cancel from memory, and the goroutine of the job writes
// it after the transaction.
//
// Even if ctx ends before the transaction does, the cancel is written, because its replica may have
// ended the context of the handler.
func (s *Store) Cancel(ctx context.Context, a storage.Action,
	run uuid.UUID) (storage.Record, error) {
	if err := a.Check(); err != nil {
		return storage.Record{}, wrap("cancel", err)
	}
	var record storage.Record
	// a cancel that would be refused must not reach the replica
	done, err := actionDone(ctx, s.readers, a, "cancel", runTarget(run), &record)
	if err != nil || done {
		return record, wrap("cancel", err)
	}
	if err := s.perform(ctx, "cancel", &request{run: run,
		meet: func(tx *openTx) error {
			tx.cancelledBy = cmp.Or(tx.cancelledBy, a.Actor)
			return nil
		},
		write: func(ctx context.Context) error { return s.cancel(ctx, a, run, &record) },
	}); err != nil {
		return storage.Record{}, err
	}
	return record, nil
}

func runTarget(run uuid.UUID) string { return "run " + run.String() }

// cancel writes the cancel. The caller has the writer.
func (s *Store) cancel(ctx context.Context, a storage.Action, run uuid.UUID,
	record *storage.Record) error {
	target := runTarget(run)
	return s.actionBy(ctx, s.writeNow, a, "cancel", target, record, func(d *actionTx) error {
		runs, err := loadRuns(ctx, d, []uuid.UUID{run})
		if err == nil && len(runs) == 0 {
			err = fmt.Errorf("run %s: %w", run, storage.ErrNotFound)
		}
		if err != nil {
			return err
		}
		found := runs[0]
		d.detail = map[string]any{"job": found.Job, "scheduled_at": found.ScheduledAt,
			"state": found.State}
		switch found.State {
		case jobs.Waiting:
			err = cancelRuns(ctx, d.Tx, []uuid.UUID{run}, a.By("cancelled"), d.now)
		case jobs.Running:
			d.controlState = true
			_, err = d.ExecContext(ctx, askToCancel, run, found.Session, d.now, a.Actor)
		default:
			err = fmt.Errorf("run %s has ended as %s: %w", run, found.State, storage.ErrConflict)
		}
		if err != nil {
			return err
		}
		records, err := recordsOf(ctx, d, []uuid.UUID{run})
		if err == nil {
			*record = records[0]
		}
		return err
	})
}

// cancelRuns ends waiting runs.
func cancelRuns(ctx context.Context, tx *sql.Tx, runs []uuid.UUID, detail string, now int64) error {
	encoded, err := encode(runs)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, cancelWaiting, encoded, detail, now); err != nil {
		return err
	}
	return execBatch(ctx, tx, endWants, runs)
}
