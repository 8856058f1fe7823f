package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	pauseColumns = ` id, kind, name, paused_at, paused_by, reason, resumed_at, resumed_by`

	// A removed job is unknown. An added job is known even if no replica has registered it yet.
	jobIsKnown = `
SELECT EXISTS (SELECT 1 FROM holdfast_specs WHERE job = ?1 AND NOT removed)
    OR EXISTS (SELECT 1 FROM holdfast_jobs WHERE name = ?1 AND version > 0)`

	addPause = `INSERT INTO holdfast_pauses (id, kind, name, paused_at, paused_by, reason)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6)`

	endPause = `UPDATE holdfast_pauses SET resumed_at = ?2, resumed_by = ?3 WHERE id = ?1`

	activePause = `SELECT` + pauseColumns + ` FROM holdfast_pauses
		WHERE kind = ?1 AND name = ?2 AND resumed_at IS NULL`

	activePauses = `SELECT` + pauseColumns + ` FROM holdfast_pauses WHERE resumed_at IS NULL
		ORDER BY paused_at, id`

	pausesBetween = `SELECT` + pauseColumns + ` FROM holdfast_pauses
WHERE (kind = 'all' OR kind = 'job' AND name = ?1 OR kind = 'group' AND name = ?2 AND ?2 <> '')
    AND paused_at <= ?4 AND (resumed_at IS NULL OR resumed_at > ?3) ORDER BY paused_at, id`
)

// Pause implements storage.Actions.
func (s *Store) Pause(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	var pause storage.Pause
	if err := target.Check(); err != nil {
		return pause, wrap("pause", err)
	}
	err := s.action(ctx, a, "pause", target.String(), &pause, func(d *actionTx) error {
		if target.Kind == storage.TargetJob {
			if err := requireJob(ctx, d.Tx, target.Name); err != nil {
				return err
			}
		}
		active, err := pausesBy(ctx, d, activePause, target.Kind, target.Name)
		if err != nil {
			return err
		}
		if len(active) > 0 {
			pause, d.detail = active[0], map[string]any{"paused_already_by": active[0].By}
			return nil
		}
		pause = storage.Pause{ID: uuid.New(), Target: target, At: fromMicros(d.now), By: a.Actor,
			Reason: a.Reason}
		d.controlState = true
		_, err = d.ExecContext(ctx, addPause, pause.ID, target.Kind, target.Name, d.now, a.Actor,
			a.Reason)
		return err
	})
	return pause, err
}

// Resume implements storage.Actions.
func (s *Store) Resume(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	var pause storage.Pause
	if err := target.Check(); err != nil {
		return pause, wrap("resume", err)
	}
	err := s.action(ctx, a, "resume", target.String(), &pause, func(d *actionTx) error {
		active, err := pausesBy(ctx, d, activePause, target.Kind, target.Name)
		if err == nil && len(active) == 0 {
			err = fmt.Errorf("%s is not paused: %w", target, storage.ErrNotFound)
		}
		if err != nil {
			return err
		}
		now := fromMicros(d.now)
		pause = active[0]
		pause.ResumedAt, pause.ResumedBy = &now, a.Actor
		d.controlState, d.detail = true,
			map[string]any{"paused_at": pause.At, "paused_by": pause.By}
		_, err = d.ExecContext(ctx, endPause, pause.ID, d.now, a.Actor)
		return err
	})
	return pause, err
}

func requireJob(ctx context.Context, tx *sql.Tx, job string) error {
	var known bool
	if err := tx.QueryRowContext(ctx, jobIsKnown, job).Scan(&known); err != nil || known {
		return err
	}
	return fmt.Errorf("job %s: %w", job, storage.ErrNotFound)
}

func pausesBy(ctx context.Context, from queryer, query string,
	args ...any) ([]storage.Pause, error) {
	var pauses []storage.Pause
	err := each(ctx, from, query, args, func(rows *sql.Rows) error {
		var p storage.Pause
		var paused int64
		var resumed sql.NullInt64
		err := rows.Scan(&p.ID, &p.Target.Kind, &p.Target.Name, &paused, &p.By, &p.Reason, &resumed,
			&p.ResumedBy)
		p.At, p.ResumedAt = fromMicros(paused), fromNullMicros(resumed)
		pauses = append(pauses, p)
		return err
	})
	return pauses, err
}

// Pauses implements storage.Control.
func (s *Store) Pauses(ctx context.Context, job, group string, from,
	until time.Time) ([]storage.Pause, error) {
	pauses, err := pausesBy(ctx, s.readers, pausesBetween, job, group, micros(from), micros(until))
	return pauses, wrap("list pauses", err)
}

// heldBack decides which first attempts must not start.
type heldBack struct {
	draining bool
	pauses   []storage.Pause
	groups   map[string]string // by job, where a group is paused
}

const (
	isDraining = `SELECT draining FROM holdfast_sessions WHERE id = ?1`

	groupsOf = `
SELECT j.name, d.job_group FROM json_each(?1) q CROSS JOIN holdfast_jobs j ON j.name = q.value
CROSS JOIN holdfast_definitions d ON d.job = j.name AND d.version = abs(j.version)`

	groupOfJob = `
SELECT coalesce(
    (SELECT d.job_group FROM holdfast_jobs j CROSS
        JOIN holdfast_definitions d ON d.job = j.name AND d.version = j.version WHERE j.name = ?1),
    (SELECT s.spec ->> 'group' FROM holdfast_specs s WHERE s.job = ?1), '')`
)

// loadHeldBack reads the pauses of the jobs, and whether the session drains. Usually there is no
// pause, and then no job's group is looked up.
func loadHeldBack(ctx context.Context, tx *sql.Tx, session uuid.UUID,
	names []string) (*heldBack, error) {
	h := &heldBack{groups: map[string]string{}}
	if err := tx.QueryRowContext(ctx, isDraining, session).Scan(&h.draining); err != nil &&
		!errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	return h, h.load(ctx, tx, names)
}

// load reads the pauses of the jobs.
func (h *heldBack) load(ctx context.Context, from queryer, names []string) (err error) {
	if h.pauses, err = pausesBy(ctx, from, activePauses); err != nil || len(h.pauses) == 0 {
		return err
	}
	encoded, err := encode(names)
	if err != nil {
		return err
	}
	return each(ctx, from, groupsOf, []any{encoded}, func(rows *sql.Rows) error {
		var name, group string
		err := rows.Scan(&name, &group)
		h.groups[name] = group
		return err
	})
}

// pause returns the pause that covers the job, or nil.
func (h *heldBack) pause(job string) *storage.Pause {
	return rules.PauseOver(h.pauses, job, h.groups[job])
}

// among returns the paused jobs among the names.
func (h *heldBack) among(names []string) []string {
	paused := []string{}
	for _, name := range names {
		if h.pause(name) != nil {
			paused = append(paused, name)
		}
	}
	return paused
}
