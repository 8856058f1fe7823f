package sqlite

import (
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

// Cancel implements storage.Actions.
func (s *Store) Cancel(ctx context.Context, a storage.Action,
	run uuid.UUID) (storage.Record, error) {
	var record storage.Record
	err := s.action(ctx, a, "cancel", "run "+run.String(), &record, func(d *actionTx) error {
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
			record = records[0]
		}
		return err
	})
	return record, err
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
