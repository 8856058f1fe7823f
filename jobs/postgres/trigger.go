package postgres

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	runByKey = selectRuns + ` WHERE r.job = $1 AND r.key = $2 AND r.key <> '' ORDER BY r.recovery DESC LIMIT 1`

	// As PostgreSQL keeps numbers: it may have written them in another way.
	sameParams = `SELECT coalesce((SELECT r.params FROM holdfast.runs r WHERE r.id = $1), '{}') = coalesce($2::jsonb, '{}')`

	pauseOfJob = `SELECT` + pauseColumns + ` FROM holdfast.pauses WHERE resumed_at IS NULL AND ` + covering + ` ORDER BY kind DESC LIMIT 1`

	groupOfJob = `
SELECT coalesce(
    (SELECT d.job_group FROM holdfast.jobs j JOIN holdfast.definitions d ON d.job = j.name AND d.version = j.version WHERE j.name = $1),
    (SELECT s.spec ->> 'group' FROM holdfast.specs s WHERE s.job = $1), '')`

	// A triggered run has its place in its job from the beginning, so that none that is
	// triggered later passes it.
	triggerRun = `
WITH new AS (
    INSERT INTO holdfast.runs (id, job, due, key, state, created_at, reason, detail, params)
    SELECT $1, $2, t, $3, 'waiting', t, 'triggered', $4, $5 FROM date_trunc('microseconds', clock_timestamp()) t
    ON CONFLICT DO NOTHING RETURNING id, job, created_at
), place AS (
    INSERT INTO holdfast.wants (resource, since, run, mode, slots) SELECT 'job:' || job, created_at, id, 'exclusive', 0 FROM new
)
INSERT INTO holdfast.waits (run, since, triggered) SELECT id, created_at, true FROM new`
)

// Trigger adds a waiting run that any replica may adopt.
func (s *Store) Trigger(ctx context.Context, a jobs.Act, r jobs.TriggerRequest) (jobs.Record, error) {
	var record jobs.Record
	if err := r.Check(); err != nil {
		return record, err
	}
	r.Key, a.Key = cmp.Or(r.Key, uuid.NewString()), ""
	err := s.act(ctx, a, "trigger", "job "+r.Job, nil, func(ctx context.Context, d *deed) (err error) {
		record, err = triggered(ctx, d, a, r)
		return err
	})
	return record, err
}

// triggered returns the key's run, which it adds where there is none.
func triggered(ctx context.Context, d *deed, a jobs.Act, r jobs.TriggerRequest) (jobs.Record, error) {
	if record, found, err := triggeredBefore(ctx, d, r); found || err != nil {
		d.silent = true
		return record, err
	}
	if err := requireJob(ctx, d, r.Job); err != nil {
		return jobs.Record{}, err
	}
	if !r.EvenPaused {
		if err := refusePaused(ctx, d, r.Job); err != nil {
			return jobs.Record{}, err
		}
	}
	id := uuid.New()
	tag, err := d.Exec(ctx, triggerRun, id, r.Job, r.Key, byWhom("triggered", a), paramsOrNull(r))
	if err != nil {
		return jobs.Record{}, err
	}
	d.detail = map[string]any{"run": id, "key": r.Key}
	d.silent = tag.RowsAffected() == 0 // another was quicker with the key
	record, _, err := triggeredBefore(ctx, d, r)
	return record, err
}

func paramsOrNull(r jobs.TriggerRequest) *string {
	if r.Params == nil {
		return nil
	}
	text := string(r.Params)
	return &text
}

// triggeredBefore finds the key's run.
func triggeredBefore(ctx context.Context, tx pgx.Tx, r jobs.TriggerRequest) (jobs.Record, bool, error) {
	rows, err := tx.Query(ctx, runByKey, r.Job, r.Key)
	if err != nil {
		return jobs.Record{}, false, err
	}
	records, err := pgx.CollectRows(rows, scanRecord)
	if err != nil || len(records) == 0 {
		return jobs.Record{}, false, err
	}
	var same bool
	if err := tx.QueryRow(ctx, sameParams, records[0].ID, paramsOrNull(r)).Scan(&same); err != nil {
		return jobs.Record{}, false, err
	}
	if !same {
		return jobs.Record{}, false, fmt.Errorf("key %q of job %s was used with other params: %w", r.Key, r.Job, jobs.ErrConflict)
	}
	return records[0], true, nil
}

// refusePaused returns a *jobs.PausedError where a pause covers the job.
func refusePaused(ctx context.Context, tx pgx.Tx, job string) error {
	var group string
	if err := tx.QueryRow(ctx, groupOfJob, job).Scan(&group); err != nil {
		return err
	}
	pause, paused, err := pauseBy(ctx, tx, pauseOfJob, job, group)
	if err != nil || !paused {
		return err
	}
	return &jobs.PausedError{Pause: pause}
}
