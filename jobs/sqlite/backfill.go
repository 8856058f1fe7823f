package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	selectBackfills = `
SELECT id, job, from_at, to_at, parallel, schedule, state, detail, created_at, created_by, reason,
    ended_at, handled_until, times, left_out, runs, succeeded, unsuccessful FROM holdfast_backfills`

	oneBackfill    = selectBackfills + ` WHERE id = ?1`
	activeBackfill = selectBackfills + ` WHERE job = ?1 AND state = 'active'`

	openBackfills = selectBackfills + ` WHERE state = 'active'
    OR id IN (SELECT backfill FROM holdfast_backfill_runs) ORDER BY created_at, id`

	saveBackfill = `
INSERT INTO holdfast_backfills (id, job, from_at, to_at, parallel, schedule, state, detail,
    created_at, created_by, reason, ended_at, handled_until, times, left_out, runs, succeeded,
    unsuccessful)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, detail = excluded.detail,
    ended_at = excluded.ended_at, handled_until = excluded.handled_until,
    left_out = excluded.left_out, runs = excluded.runs, succeeded = excluded.succeeded,
    unsuccessful = excluded.unsuccessful`

	// backfilledJob reads the active definition, or the last one of a removed job.
	backfilledJob = `
SELECT j.version, j.checked_until, d.zone, d.fingerprint, d.schedule, d.may_overlap, d.job_group,
    ` + wasAbsent + `
FROM holdfast_jobs j CROSS JOIN holdfast_definitions d ON d.job = j.name
    AND d.version = abs(j.version) WHERE j.name = ?1`

	// unfinishedRuns lists the last run of each scheduled time: a recovery counts instead of the
	// lost run. A run that was deleted from the history has no state.
	unfinishedRuns = `
SELECT u.key, r.id, r.state FROM holdfast_backfill_runs u
CROSS JOIN holdfast_backfills b ON b.id = u.backfill
LEFT JOIN holdfast_runs r ON r.id = (SELECT l.id FROM holdfast_runs l
    WHERE l.job = b.job AND l.key = u.key AND l.key <> '' AND l.key_actor = ''
    ORDER BY l.recovery DESC LIMIT 1)
WHERE u.backfill = ?1 ORDER BY u.key`

	addUnfinished = `INSERT INTO holdfast_backfill_runs (backfill, key) VALUES (?1, ?2)`

	endUnfinished = `DELETE FROM holdfast_backfill_runs WHERE backfill = ?1
		AND key IN (SELECT value FROM json_each(?2))`

	takenBy = `r.state IN ('waiting', 'running', 'succeeded') AND coalesce(r.params, '{}') = '{}'`

	backfillTime = `
SELECT EXISTS (SELECT 1 FROM holdfast_runs r INDEXED BY holdfast_runs_scheduled
        WHERE r.job = ?1 AND r.scheduled_at = ?2 AND r.key = '' AND ` + takenBy + `)
    OR EXISTS (SELECT 1 FROM holdfast_runs r INDEXED BY holdfast_runs_triggered
        WHERE r.job = ?1 AND r.scheduled_at = ?2 AND r.key <> '' AND ` + takenBy + `),
    EXISTS (SELECT 1 FROM holdfast_runs r INDEXED BY holdfast_runs_scheduled
        WHERE r.job = ?1 AND r.scheduled_at = ?2 AND r.key = '')`

	takenTimes = `
SELECT * FROM (
    SELECT r.id, r.scheduled_at, r.state, r.reason, r.started_at, r.finished_at
        FROM holdfast_runs r INDEXED BY holdfast_runs_scheduled
        WHERE r.job = ?1 AND r.key = '' AND r.scheduled_at BETWEEN ?2 AND ?3 AND ` + takenBy + `
    UNION ALL
    SELECT r.id, r.scheduled_at, r.state, r.reason, r.started_at, r.finished_at
        FROM holdfast_runs r INDEXED BY holdfast_runs_triggered
        WHERE r.job = ?1 AND r.key <> '' AND r.scheduled_at BETWEEN ?2 AND ?3 AND ` + takenBy + `
) ORDER BY scheduled_at, id LIMIT ?4`

	pruneBackfills = `
DELETE FROM holdfast_backfills AS b WHERE ended_at < ?1
    AND NOT EXISTS (SELECT 1 FROM holdfast_backfill_runs u WHERE u.backfill = b.id)`
)

// backfillRow is a row of holdfast_backfills.
type backfillRow struct{ rules.Backfill }

func (b backfillRow) values() []any {
	return []any{b.ID, b.Job, micros(b.From), micros(b.To), b.Parallel, b.ScheduleKey, b.State,
		b.Detail, micros(b.CreatedAt), b.CreatedBy, b.Reason, nullMicros(b.EndedAt),
		micros(b.HandledUntil), b.Times, b.LeftOut, b.Runs, b.Succeeded, b.Unsuccessful}
}

// AddBackfill implements storage.Actions.
func (s *Store) AddBackfill(ctx context.Context, a storage.Action,
	r storage.BackfillRequest) (storage.Backfill, error) {
	var added storage.Backfill
	err := s.action(ctx, r.Asking(a), "backfill", "job "+r.Job, &added, func(d *actionTx) error {
		job, err := loadBackfilledJob(ctx, d.Tx, r.Job)
		if err == nil && job.version <= 0 {
			err = fmt.Errorf("active definition of job %s: %w", r.Job, storage.ErrNotFound)
		}
		if err == nil {
			err = r.Fits(job.ScheduleKey(), job.MayOverlap, fromMicros(d.now))
		}
		if err != nil {
			return err
		}
		active, err := backfillsBy(ctx, d.Tx, activeBackfill, r.Job)
		if err == nil && len(active) > 0 {
			err = active[0].Another()
		}
		if err != nil {
			return err
		}
		b := rules.NewBackfill(a, r, fromMicros(d.now))
		added, d.detail = b.Backfill, b.Audited()
		return execRows(ctx, d.Tx, saveBackfill, []backfillRow{{b}})
	})
	return added, err
}

// CancelBackfill implements storage.Actions.
func (s *Store) CancelBackfill(ctx context.Context, a storage.Action,
	id uuid.UUID) (storage.Backfill, error) {
	var ended storage.Backfill
	err := s.action(ctx, a, "cancel_backfill", "backfill "+id.String(), &ended,
		func(d *actionTx) error {
			b, err := loadBackfill(ctx, d.Tx, id)
			if err == nil && b.State != storage.BackfillActive {
				err = b.HasEnded()
			}
			if err != nil {
				return err
			}
			unfinished, err := loadUnfinished(ctx, d.Tx, id)
			if err != nil {
				return err
			}
			waiting := []uuid.UUID{}
			for _, u := range unfinished {
				if u.state == jobs.Waiting {
					waiting = append(waiting, u.run)
				}
			}
			if err := cancelRuns(ctx, d.Tx, waiting, a.By("its backfill was cancelled"),
				d.now); err != nil {
				return err
			}
			b.End(storage.BackfillCancelled, a.By("cancelled"), fromMicros(d.now))
			ended = b.Backfill.Backfill
			d.detail = map[string]any{"job": b.Job, "cancelled_runs": len(waiting)}
			return execRows(ctx, d.Tx, saveBackfill, []backfillRow{b})
		})
	return ended, err
}

// AdvanceBackfill implements storage.Backfills.
func (s *Store) AdvanceBackfill(ctx context.Context,
	step storage.BackfillStep) (storage.Backfill, error) {
	if err := s.exclusively("advance backfill"); err != nil {
		return storage.Backfill{}, err
	}
	var after storage.Backfill
	err := s.write(ctx, "advance backfill", func(tx *sql.Tx) error {
		b, err := loadBackfill(ctx, tx, step.Backfill)
		if err != nil {
			return err
		}
		now := rules.Whole(time.Now())
		if err := b.countEnded(ctx, tx); err != nil {
			return err
		}
		job, err := loadBackfilledJob(ctx, tx, b.Job)
		if err != nil {
			return err
		}
		b.Stop(job.ScheduleKey(), job.version < 0, job.gone, now)
		if step.Version > 0 && job.version == step.Version {
			if err := b.addRuns(ctx, tx, step, job, now); err != nil {
				return err
			}
		}
		b.Complete(now)
		after = b.Backfill.Backfill
		return execRows(ctx, tx, saveBackfill, []backfillRow{b})
	})
	return after, err
}

// countEnded counts the runs that have ended.
func (b *backfillRow) countEnded(ctx context.Context, tx *sql.Tx) error {
	unfinished, err := loadUnfinished(ctx, tx, b.ID)
	if err != nil {
		return err
	}
	ended := []string{}
	for _, u := range unfinished {
		if u.state.Final() {
			b.Count(u.state)
			ended = append(ended, u.key)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	keys, err := encode(ended)
	if err == nil {
		_, err = tx.ExecContext(ctx, endUnfinished, b.ID, keys)
	}
	return err
}

// addRuns handles the times of the step, unless the job is paused.
func (b *backfillRow) addRuns(ctx context.Context, tx *sql.Tx, step storage.BackfillStep,
	job backfilled, now time.Time) error {
	pauses, err := pausesBy(ctx, tx, activePauses)
	if err != nil || rules.PauseOver(pauses, b.Job, job.Group) != nil {
		return err
	}
	added, err := b.Handle(step, now, func(at time.Time) (taken, decided bool, err error) {
		err = tx.QueryRowContext(ctx, backfillTime, b.Job, micros(at)).Scan(&taken, &decided)
		return taken, decided || !at.After(job.checkedUntil), err
	})
	if err != nil {
		return err
	}
	runs, keys := make([]runRow, len(added)), make([]unfinishedRow, len(added))
	for i, r := range added {
		runs[i], keys[i] = runRow{Run: r}, unfinishedRow{b.ID, r.Key}
	}
	if err := execRows(ctx, tx, insertRun, runs); err != nil {
		return err
	}
	return execRows(ctx, tx, addUnfinished, keys)
}

// unfinishedRow is a row of holdfast_backfill_runs.
type unfinishedRow struct {
	backfill uuid.UUID
	key      string
}

func (r unfinishedRow) values() []any { return []any{r.backfill, r.key} }

// OpenBackfills implements storage.Backfills.
func (s *Store) OpenBackfills(ctx context.Context) ([]storage.OpenBackfill, error) {
	rows, err := backfillsBy(ctx, s.readers, openBackfills)
	open := make([]storage.OpenBackfill, len(rows))
	for i := 0; i < len(rows) && err == nil; i++ {
		var unfinished []unfinished
		unfinished, err = loadUnfinished(ctx, s.readers, rows[i].ID)
		open[i].Backfill = rows[i].Backfill.Backfill
		for _, u := range unfinished {
			if u.state.Final() {
				open[i].Ended++
			}
		}
	}
	return open, wrap("list open backfills", err)
}

// Backfills implements storage.BackfillHistory.
func (s *Store) Backfills(ctx context.Context,
	f storage.BackfillFilter) ([]storage.Backfill, error) {
	query, args := backfillsQuery(f)
	rows, err := backfillsBy(ctx, s.readers, query, args...)
	found := make([]storage.Backfill, len(rows))
	for i := range rows {
		found[i] = rows[i].Backfill.Backfill
	}
	if backwards(f.Before != nil, f.After != nil) {
		slices.Reverse(found)
	}
	return found, wrap("list backfills", err)
}

// backfillsQuery returns the query of a page of backfills.
func backfillsQuery(f storage.BackfillFilter) (string, []any) {
	query, args := selectBackfills+" WHERE true", []any{}
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("?%d", len(args))
	}
	if f.Job != "" {
		query += " AND job = " + arg(f.Job)
	}
	if f.State != "" {
		query += " AND state = " + arg(f.State)
	}
	if f.Ended {
		query += " AND state <> 'active'"
	}
	if f.Before != nil {
		query += " AND (created_at, id) < (" + arg(micros(f.Before.CreatedAt)) + ", " +
			arg(f.Before.ID) + ")"
	}
	if f.After != nil {
		query += " AND (created_at, id) > (" + arg(micros(f.After.CreatedAt)) + ", " +
			arg(f.After.ID) + ")"
	}
	order := " ORDER BY created_at DESC, id DESC"
	if backwards(f.Before != nil, f.After != nil) {
		order = " ORDER BY created_at, id"
	}
	query += order + " LIMIT " + arg(storage.PageSize(f.Limit))
	return query, args
}

// Backfill implements storage.BackfillHistory.
func (s *Store) Backfill(ctx context.Context, id uuid.UUID) (storage.Backfill, error) {
	b, err := loadBackfill(ctx, s.readers, id)
	return b.Backfill.Backfill, wrap("backfill", err)
}

// BackfillTaken implements storage.BackfillHistory.
func (s *Store) BackfillTaken(ctx context.Context, job string, from,
	to time.Time) ([]storage.Outcome, error) {
	var taken []storage.Outcome
	err := each(ctx, s.readers, takenTimes,
		[]any{job, micros(from), micros(to), 2 * storage.MaxBackfillTimes},
		func(rows *sql.Rows) error {
			var o storage.Outcome
			var scheduledAt int64
			var started, finished sql.NullInt64
			err := rows.Scan(&o.Run, &scheduledAt, &o.State, &o.Reason, &started, &finished)
			o.ScheduledAt, o.StartedAt, o.FinishedAt = fromMicros(scheduledAt),
				fromNullMicros(started), fromNullMicros(finished)
			taken = append(taken, o)
			return err
		})
	return taken, wrap("list runs of a range", err)
}

func loadBackfill(ctx context.Context, from queryer, id uuid.UUID) (backfillRow, error) {
	rows, err := backfillsBy(ctx, from, oneBackfill, id)
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("backfill %s: %w", id, storage.ErrNotFound)
	}
	if err != nil {
		return backfillRow{}, err
	}
	return rows[0], nil
}

func backfillsBy(ctx context.Context, from queryer, query string,
	args ...any) ([]backfillRow, error) {
	var found []backfillRow
	err := each(ctx, from, query, args, func(rows *sql.Rows) error {
		var b backfillRow
		var fromAt, toAt, created, handled int64
		var ended sql.NullInt64
		err := rows.Scan(&b.ID, &b.Job, &fromAt, &toAt, &b.Parallel, &b.ScheduleKey, &b.State,
			&b.Detail, &created, &b.CreatedBy, &b.Reason, &ended, &handled, &b.Times, &b.LeftOut,
			&b.Runs, &b.Succeeded, &b.Unsuccessful)
		b.From, b.To, b.CreatedAt, b.HandledUntil = fromMicros(fromAt), fromMicros(toAt),
			fromMicros(created), fromMicros(handled)
		b.EndedAt = fromNullMicros(ended)
		found = append(found, b)
		return err
	})
	return found, err
}

// backfilled is the job of a backfill.
type backfilled struct {
	storage.Definition
	version      int64
	checkedUntil time.Time
	gone         bool
}

func loadBackfilledJob(ctx context.Context, tx *sql.Tx, name string) (backfilled, error) {
	var job backfilled
	var checked int64
	// the numbers of the arguments are those of wasAbsent
	err := tx.QueryRowContext(ctx, backfilledJob, name, nil, storage.MaxAbsence.Microseconds()).
		Scan(&job.version, &checked, &job.Zone, &job.Fingerprint, &job.Schedule, &job.MayOverlap,
			&job.Group, &job.gone)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("active definition of job %s: %w", name, storage.ErrNotFound)
	}
	job.Name, job.checkedUntil = name, fromMicros(checked)
	return job, err
}

// unfinished is a run of a backfill that is not counted.
type unfinished struct {
	key   string
	run   uuid.UUID
	state jobs.State
}

// loadUnfinished returns the runs of the backfill that are not counted.
func loadUnfinished(ctx context.Context, from queryer, backfill uuid.UUID) ([]unfinished, error) {
	var found []unfinished
	err := each(ctx, from, unfinishedRuns, []any{backfill}, func(rows *sql.Rows) error {
		u := unfinished{state: jobs.Lost}
		var run uuid.NullUUID
		var state *jobs.State
		err := rows.Scan(&u.key, &run, &state)
		if u.run = run.UUID; state != nil {
			u.state = *state
		}
		found = append(found, u)
		return err
	})
	return found, err
}
