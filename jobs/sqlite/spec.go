package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	specColumns = ` job, spec, version, changed_at, changed_by, removed`

	oneSpec = `SELECT` + specColumns + ` FROM holdfast_specs WHERE job = ?1`

	addedSpecs = `SELECT` + specColumns + ` FROM holdfast_specs WHERE NOT removed ORDER BY job`

	// A job comes from the configuration while a session has it from there. If no session has any
	// job, the last known source counts.
	comesFromConfig = `
SELECT EXISTS (
    SELECT 1 FROM holdfast_session_jobs c JOIN holdfast_definitions d ON d.job = c.job
        AND d.version = c.version WHERE c.job = ?1 AND d.source = 'config'
) OR EXISTS (
    SELECT 1 FROM holdfast_jobs j JOIN holdfast_definitions d ON d.job = j.name
        AND d.version = j.version WHERE j.name = ?1 AND d.source = 'config'
) AND NOT EXISTS (SELECT 1 FROM holdfast_session_jobs)`

	writeSpec = `
INSERT INTO holdfast_specs (job, spec, version, changed_at, changed_by, removed)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (job) DO UPDATE SET spec = excluded.spec, version = excluded.version,
    changed_at = excluded.changed_at,
    changed_by = excluded.changed_by, removed = excluded.removed`

	waitingOf = `SELECT id FROM holdfast_runs WHERE state = 'waiting' AND job = ?1`

	dropCarriers = `DELETE FROM holdfast_session_jobs WHERE job = ?1`

	// No definition has a negative version, so no replica fires, checks or recovers the job.
	deactivateJob = `UPDATE holdfast_jobs SET version = -version, updated_at = ?2
		WHERE name = ?1 AND version > 0`
)

// PutSpec implements storage.Actions.
func (s *Store) PutSpec(ctx context.Context, a storage.Action, spec storage.Spec,
	checks ...storage.SpecCheck) (storage.Spec, error) {
	if err := spec.Check(); err != nil {
		return storage.Spec{}, wrap("put_job", err)
	}
	var put storage.Spec
	err := s.action(ctx, a.Asking(string(spec.Text), strconv.FormatInt(spec.Version, 10)),
		"put_job", "job "+spec.Job, &put, func(d *actionTx) error {
			known, err := changeable(ctx, d, spec.Job, checks)
			if err != nil {
				return err
			}
			if put, err = rules.PutSpec(known, spec, a.Actor, fromMicros(d.now)); err != nil {
				return err
			}
			d.controlState = true
			d.detail = map[string]any{"version": put.Version, "spec": put.Text}
			return d.writeSpec(ctx, put)
		})
	return put, err
}

// RemoveSpec implements storage.Actions.
func (s *Store) RemoveSpec(ctx context.Context, a storage.Action, job string, version int64,
	checks ...storage.SpecCheck) error {
	if err := (storage.Target{Kind: storage.TargetJob, Name: job}).Check(); err != nil {
		return wrap("remove_job", err)
	}
	return s.action(ctx, a.Asking(strconv.FormatInt(version, 10)), "remove_job", "job "+job,
		nil, func(d *actionTx) error {
			known, err := changeable(ctx, d, job, checks)
			if err != nil {
				return err
			}
			removed, err := rules.RemoveSpec(known, job, version, a.Actor, fromMicros(d.now))
			if err != nil {
				return err
			}
			waiting, err := idsBy(ctx, d, waitingOf, job)
			if err != nil {
				return err
			}
			if err := cancelRuns(ctx, d.Tx, waiting, a.By("its job was removed"),
				d.now); err != nil {
				return err
			}
			d.controlState, d.detail = true,
				map[string]any{"version": removed.Version, "cancelled_runs": len(waiting)}
			if err := d.writeSpec(ctx, removed); err != nil {
				return err
			}
			return d.deactivateJob(ctx, job)
		})
}

// deactivateJob removes the job from all sessions.
func (d *actionTx) deactivateJob(ctx context.Context, job string) error {
	if _, err := d.ExecContext(ctx, dropCarriers, job); err != nil {
		return err
	}
	was, err := changed(ctx, d.Tx, deactivateJob, job, d.now)
	if err == nil && was {
		_, err = d.ExecContext(ctx, countChange)
	}
	return err
}

func (d *actionTx) writeSpec(ctx context.Context, s storage.Spec) error {
	_, err := d.ExecContext(ctx, writeSpec, s.Job, string(s.Text), s.Version, d.now, s.ChangedBy,
		s.Removed)
	return err
}

// changeable returns the job's spec, or nil if it has none. It returns an error if the job comes
// from the configuration or a check fails.
func changeable(ctx context.Context, d *actionTx, job string,
	checks []storage.SpecCheck) (*storage.Spec, error) {
	var configured bool
	if err := d.QueryRowContext(ctx, comesFromConfig, job).Scan(&configured); err != nil {
		return nil, err
	}
	if configured {
		return nil, fmt.Errorf("job %s: %w", job, storage.ErrFromConfig)
	}
	added, err := specsBy(ctx, d, addedSpecs)
	if err != nil {
		return nil, err
	}
	for _, check := range checks {
		if err := check(added); err != nil {
			return nil, err
		}
	}
	specs, err := specsBy(ctx, d, oneSpec, job)
	if err != nil || len(specs) == 0 {
		return nil, err
	}
	return &specs[0], nil
}

func specsBy(ctx context.Context, from queryer, query string, args ...any) ([]storage.Spec, error) {
	var specs []storage.Spec
	err := each(ctx, from, query, args, func(rows *sql.Rows) error {
		var s storage.Spec
		var text string
		var changed int64
		err := rows.Scan(&s.Job, &text, &s.Version, &changed, &s.ChangedBy, &s.Removed)
		s.Text, s.ChangedAt = []byte(text), fromMicros(changed)
		specs = append(specs, s)
		return err
	})
	return specs, err
}
