package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	pauseColumns = ` id, kind, name, paused_at, paused_by, reason, resumed_at, resumed_by`

	// A removed job is unknown. An added job is known even if no replica has registered it yet.
	jobIsKnown = `
SELECT EXISTS (SELECT FROM holdfast.specs WHERE job = $1 AND NOT removed)
    OR EXISTS (SELECT FROM holdfast.jobs WHERE name = $1 AND version > 0)`

	addPause = `
INSERT INTO holdfast.pauses (id, kind, name, paused_at, paused_by, reason)
VALUES (gen_random_uuid(), $1, $2, clock_timestamp(), $3, $4)
ON CONFLICT (kind, name) WHERE resumed_at IS NULL DO NOTHING RETURNING` + pauseColumns

	standingPause = `SELECT` + pauseColumns + ` FROM holdfast.pauses
		WHERE kind = $1 AND name = $2 AND resumed_at IS NULL`

	endPause = `
UPDATE holdfast.pauses SET resumed_at = clock_timestamp(), resumed_by = $3
WHERE kind = $1 AND name = $2 AND resumed_at IS NULL RETURNING` + pauseColumns

	covering = `(kind, name) IN (('all', ''), ('job', $1), ('group', nullif($2, '')))`

	pausesBetween = `SELECT` + pauseColumns + ` FROM holdfast.pauses
WHERE ` + covering + ` AND paused_at <= $4 AND (resumed_at IS NULL OR resumed_at > $3)
    ORDER BY paused_at, id`

	// currentPauses has the pauses of jobs, of groups and of everything. There are few.
	currentPauses = `
active_pauses AS MATERIALIZED (
    SELECT p.kind, p.name, p.paused_by FROM holdfast.pauses p
        WHERE p.resumed_at IS NULL AND p.kind = ANY('{all,group,job}')
)`

	// activeGroup returns the group of q.job, by its active definition.
	activeGroup = `
        SELECT d.job_group FROM holdfast.definitions d WHERE d.job = q.job COLLATE "C"
            AND d.version = (SELECT abs(j.version) FROM holdfast.jobs j
                WHERE j.name = q.job COLLATE "C")`

	// pausedJobs are two lists: active_pauses, and paused. The list paused has the jobs in $2 that
	// an active pause covers. Usually there is no pause, and then no job's group is looked up.
	pausedJobs = currentPauses + `, paused AS MATERIALIZED (
    SELECT q.job, max(CASE p.kind WHEN 'all' THEN 'everything'
        ELSE p.kind || ' ' || p.name END || ' is paused by ' || p.paused_by) AS detail
    FROM unnest($2::text[]) AS q (job)
    CROSS JOIN LATERAL (VALUES ('all', ''), ('job', q.job),
        ('group', CASE WHEN EXISTS (SELECT FROM active_pauses WHERE kind = 'group')
            THEN (` + activeGroup + `) END)) AS k (kind, name)
    JOIN active_pauses p ON p.kind = k.kind AND p.name = k.name COLLATE "C"
    WHERE EXISTS (SELECT FROM active_pauses) GROUP BY q.job
)`
)

// Pause implements storage.Actions.
func (s *Store) Pause(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	var pause storage.Pause
	if err := target.Check(); err != nil {
		return pause, err
	}
	err := s.action(ctx, a, "pause", target.String(), &pause,
		func(ctx context.Context, d *actionTx) error {
			if target.Kind == storage.TargetJob {
				if err := requireJob(ctx, d, target.Name); err != nil {
					return err
				}
			}
			for found := false; !found; { // an active pause may end between the two statements
				var err error
				if pause, d.controlState, err = pauseBy(ctx, d, addPause, target.Kind, target.Name,
					a.Actor, a.Reason); err != nil || d.controlState {
					return err
				}
				if pause, found, err = pauseBy(ctx, d, standingPause, target.Kind,
					target.Name); err != nil {
					return err
				}
			}
			d.detail = map[string]any{"paused_already_by": pause.By}
			return nil
		})
	return pause, err
}

// Resume implements storage.Actions.
func (s *Store) Resume(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	var pause storage.Pause
	if err := target.Check(); err != nil {
		return pause, err
	}
	err := s.action(ctx, a, "resume", target.String(), &pause,
		func(ctx context.Context, d *actionTx) (err error) {
			if pause, d.controlState, err = pauseBy(ctx, d, endPause, target.Kind, target.Name,
				a.Actor); err == nil && !d.controlState {
				err = fmt.Errorf("%s is not paused: %w", target, storage.ErrNotFound)
			}
			d.detail = map[string]any{"paused_at": pause.At, "paused_by": pause.By}
			return err
		})
	return pause, err
}

func requireJob(ctx context.Context, tx pgx.Tx, job string) error {
	var known bool
	if err := tx.QueryRow(ctx, jobIsKnown, job).Scan(&known); err != nil || known {
		return err
	}
	return fmt.Errorf("job %s: %w", job, storage.ErrNotFound)
}

// pauseBy runs a statement that returns one pause or none.
func pauseBy(ctx context.Context, tx pgx.Tx, sql string,
	args ...any) (pause storage.Pause, found bool, err error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pause, false, err
	}
	pauses, err := pgx.CollectRows(rows, scanPause)
	if err != nil || len(pauses) == 0 {
		return pause, false, err
	}
	return pauses[0], true, nil
}

func scanPause(row pgx.CollectableRow) (storage.Pause, error) {
	var p storage.Pause
	err := row.Scan(&p.ID, &p.Target.Kind, &p.Target.Name, &p.At, &p.By, &p.Reason, &p.ResumedAt,
		&p.ResumedBy)
	p.At, p.ResumedAt = p.At.UTC(), utc(p.ResumedAt)
	return p, err
}

// Pauses implements storage.Control.
func (s *Store) Pauses(ctx context.Context, job, group string, from,
	until time.Time) ([]storage.Pause, error) {
	rows, err := s.views.Query(ctx, pausesBetween, job, group, from, until)
	if err != nil {
		return nil, wrap("list pauses", err)
	}
	pauses, err := pgx.CollectRows(rows, scanPause)
	return pauses, wrap("list pauses", err)
}
