package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	lockRun = selectRuns + ` WHERE r.id = $1 FOR UPDATE OF r`

	// cancelWaiting ends runs whose waits the transaction has locked.
	cancelWaiting = `
WITH gone AS (
    DELETE FROM holdfast.waits w WHERE w.run = ANY($1) AND w.owner IS NULL
), unwanted AS (
    DELETE FROM holdfast.wants w WHERE w.run = ANY($1)
)
UPDATE holdfast.runs SET state = 'cancelled', reason = 'cancelled', detail = $2, blocker = NULL,
    finished_at = clock_timestamp()
WHERE id = ANY($1) AND state = 'waiting'`

	askToCancel = `
INSERT INTO holdfast.cancels (run, session, requested_at, requested_by)
SELECT r.id, r.session, clock_timestamp(), $2 FROM holdfast.runs r WHERE r.id = $1
ON CONFLICT (run) DO NOTHING`

	// cancelLeft ends the waiting runs of removed jobs that no live session has. No replica adopts
	// them.
	cancelLeft = `
WITH removed AS MATERIALIZED (
    SELECT j.name FROM holdfast.jobs j WHERE j.version < 0
), gone AS (
    DELETE FROM holdfast.waits WHERE run = ANY(ARRAY(
        SELECT w.run FROM holdfast.waits w
        CROSS JOIN LATERAL (SELECT FROM holdfast.runs r
            WHERE r.id = w.run AND r.job IN (SELECT name FROM removed) OFFSET 0) r
        LEFT JOIN holdfast.sessions s ON s.id = w.session
        WHERE EXISTS (SELECT FROM removed) AND w.owner IS NULL
            AND (w.session IS NULL OR s.ended_at IS NOT NULL)
        ORDER BY w.run FOR UPDATE OF w SKIP LOCKED))
    RETURNING run
), unwanted AS (
    DELETE FROM holdfast.wants WHERE run = ANY(ARRAY(SELECT run FROM gone))
)
UPDATE holdfast.runs SET state = 'cancelled', reason = 'cancelled', detail = 'its job was removed',
    blocker = NULL, finished_at = clock_timestamp()
WHERE id = ANY(ARRAY(SELECT run FROM gone)) AND state = 'waiting'`

	// forgetCancels deletes the cancels of ended runs, however they ended. A run that waits for its
	// next attempt has not ended.
	forgetCancels = `
DELETE FROM holdfast.cancels c WHERE (SELECT r.state FROM holdfast.runs r
    WHERE r.id = c.run) IS NULL
    OR (SELECT r.state FROM holdfast.runs r WHERE r.id = c.run) NOT IN ('waiting', 'running')`
)

// errMoved reports that a run began to wait while the cancel was reading it.
var errMoved = errors.New("run has moved")

// Cancel implements storage.Actions.
func (s *Store) Cancel(ctx context.Context, a storage.Action,
	run uuid.UUID) (storage.Record, error) {
	for {
		var record storage.Record
		err := s.action(ctx, a, "cancel", "run "+run.String(), &record,
			func(ctx context.Context, d *actionTx) (err error) {
				record, err = cancelRun(ctx, d, a, run)
				return err
			})
		if !errors.Is(err, errMoved) || ctx.Err() != nil {
			return record, err
		}
	}
}

// cancelRun locks the run's wait before the run, in the common lock order. So a concurrent start or
// note comes entirely before or after it.
func cancelRun(ctx context.Context, d *actionTx, a storage.Action,
	run uuid.UUID) (storage.Record, error) {
	place, err := d.Exec(ctx, lockWaits, []rawID{run})
	if err != nil {
		return storage.Record{}, err
	}
	record, err := readRun(ctx, d, lockRun, run)
	if err != nil {
		return record, err
	}
	d.detail = map[string]any{"job": record.Job, "scheduled_at": record.ScheduledAt,
		"state": record.State}
	switch {
	case record.State == jobs.Waiting && place.RowsAffected() == 0:
		return record, errMoved
	case record.State == jobs.Waiting:
		if _, err := d.Exec(ctx, cancelWaiting, []rawID{run}, a.By("cancelled")); err != nil {
			return record, err
		}
	case record.State == jobs.Running:
		d.controlState = true
		if _, err := d.Exec(ctx, askToCancel, run, a.Actor); err != nil {
			return record, err
		}
	default:
		return record, fmt.Errorf("run %s has ended as %s: %w", run, record.State,
			storage.ErrConflict)
	}
	return readRun(ctx, d, selectRuns+` WHERE r.id = $1`, run)
}

func readRun(ctx context.Context, tx pgx.Tx, sql string, run uuid.UUID) (storage.Record, error) {
	rows, err := tx.Query(ctx, sql, run)
	if err != nil {
		return storage.Record{}, err
	}
	return oneRecord("run "+run.String(), rows)
}
