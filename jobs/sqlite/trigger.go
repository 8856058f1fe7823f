package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

const runByKey = `SELECT id FROM holdfast_runs WHERE job = ?1 AND key = ?2 AND key <> '' ORDER BY recovery DESC LIMIT 1`

// Trigger adds a waiting run that any replica may adopt.
func (s *Store) Trigger(ctx context.Context, a jobs.Act, r jobs.TriggerRequest) (jobs.Record, error) {
	var record jobs.Record
	if err := r.Check(); err != nil {
		return record, wrap("trigger", err)
	}
	r.Key, a.Key = cmp.Or(r.Key, uuid.NewString()), ""
	err := s.act(ctx, a, "trigger", "job "+r.Job, nil, func(d *deed) (err error) {
		record, err = triggered(ctx, d, a, r)
		return err
	})
	return record, err
}

// triggered returns the key's run, which it adds where there is none.
func triggered(ctx context.Context, d *deed, a jobs.Act, r jobs.TriggerRequest) (jobs.Record, error) {
	var id uuid.UUID
	err := d.QueryRowContext(ctx, runByKey, r.Job, r.Key).Scan(&id)
	if err == nil {
		d.silent = true
		return triggeredBefore(ctx, d.Tx, id, r)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return jobs.Record{}, err
	}
	if err := requireJob(ctx, d.Tx, r.Job); err != nil {
		return jobs.Record{}, err
	}
	if !r.EvenPaused {
		if err := refusePaused(ctx, d.Tx, r.Job); err != nil {
			return jobs.Record{}, err
		}
	}
	run := newRun(uuid.New(), jobs.Firing{Job: r.Job, Due: fromMicros(d.now), Key: r.Key}, d.now)
	run.Since, run.Reason, run.Detail = &d.now, jobs.ReasonTriggered, byWhom("triggered", a)
	if r.Params != nil {
		text := string(r.Params)
		run.Params = &text
	}
	if err := execRows(ctx, d.Tx, addRun, []runRow{run}); err != nil {
		return jobs.Record{}, err
	}
	// Its place in its job is its own from the beginning, so that none that is triggered
	// later passes it.
	own, err := locking.Job(r.Job)
	if err != nil {
		return jobs.Record{}, err
	}
	place := wantRows(run.ID, []locking.Request{{Resource: own, Mode: locking.Exclusive}})
	if err := execRows(ctx, d.Tx, addWant, place); err != nil {
		return jobs.Record{}, err
	}
	d.detail = map[string]any{"run": run.ID, "key": r.Key}
	return run.record()
}

func triggeredBefore(ctx context.Context, tx *sql.Tx, id uuid.UUID, r jobs.TriggerRequest) (jobs.Record, error) {
	records, err := recordsOf(ctx, tx, []uuid.UUID{id})
	if err != nil {
		return jobs.Record{}, err
	}
	if !jobs.SameParams(records[0].Params, r.Params) {
		return jobs.Record{}, fmt.Errorf("key %q of job %s was used with other params: %w", r.Key, r.Job, jobs.ErrConflict)
	}
	return records[0], nil
}

// refusePaused returns a *jobs.PausedError where a pause covers the job.
func refusePaused(ctx context.Context, tx *sql.Tx, job string) error {
	h := &heldBack{groups: map[string]string{}}
	var err error
	if h.pauses, err = pausesBy(ctx, tx, standingPauses); err != nil || len(h.pauses) == 0 {
		return err
	}
	var group string
	if err := tx.QueryRowContext(ctx, groupOfJob, job).Scan(&group); err != nil {
		return err
	}
	h.groups[job] = group
	if pause, paused := h.pause(job); paused {
		return &jobs.PausedError{Pause: pause}
	}
	return nil
}
