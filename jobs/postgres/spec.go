package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	specColumns = ` job, spec, version, changed_at, changed_by, removed`

	// A job comes from the configuration while a session has it from there. If no session has any
	// job, the last known source counts.
	comesFromConfig = `
SELECT EXISTS (
    SELECT FROM holdfast.session_jobs c JOIN holdfast.definitions d ON d.job = c.job
        AND d.version = c.version WHERE c.job = $1 AND d.source = 'config'
) OR EXISTS (
    SELECT FROM holdfast.jobs j JOIN holdfast.definitions d ON d.job = j.name
        AND d.version = j.version WHERE j.name = $1 AND d.source = 'config'
) AND NOT EXISTS (SELECT FROM holdfast.session_jobs)`

	addSpec = `
INSERT INTO holdfast.specs AS s (job, spec, version, changed_at, changed_by, removed)
    VALUES ($1, $2, 1, clock_timestamp(), $3, false)
ON CONFLICT (job) DO UPDATE SET spec = excluded.spec, version = s.version + 1,
    changed_at = excluded.changed_at,
    changed_by = excluded.changed_by, removed = false WHERE s.removed
RETURNING` + specColumns

	changeSpec = `
UPDATE holdfast.specs SET spec = $2, version = version + 1, changed_at = clock_timestamp(),
    changed_by = $3
WHERE job = $1 AND version = $4 AND NOT removed RETURNING` + specColumns

	removeSpec = `
UPDATE holdfast.specs SET removed = true, version = version + 1, changed_at = clock_timestamp(),
    changed_by = $2
WHERE job = $1 AND version = $3 AND NOT removed RETURNING` + specColumns

	// lockSpecs excludes all other actions that add, change or remove jobs until the commit, so
	// that the results of a check remain true.
	lockSpecs = `SELECT pg_advisory_xact_lock(hashtextextended('holdfast specs ' || $1, 0))`

	addedSpecs = `SELECT` + specColumns + ` FROM holdfast.specs WHERE NOT removed ORDER BY job`

	oneSpec = `SELECT` + specColumns + ` FROM holdfast.specs WHERE job = $1`

	// The waiting runs of a job are found through the table of waits, which is small.
	waitingOf = `
SELECT w.run FROM holdfast.waits w
CROSS JOIN LATERAL (SELECT FROM holdfast.runs r
    WHERE r.id = w.run AND r.job = $1 AND r.state = 'waiting' OFFSET 0) r WHERE w.owner IS NULL`

	dropCarriers = `DELETE FROM holdfast.session_jobs WHERE job = $1`

	// No definition has a negative version, so no replica fires, checks or recovers the job.
	deactivateJob = `
WITH changed AS (
    UPDATE holdfast.jobs SET version = -version, updated_at = clock_timestamp()
        WHERE name = $1 AND version > 0 RETURNING name
)
UPDATE holdfast.meta SET definitions = definitions + 1 WHERE one AND EXISTS (SELECT FROM changed)`
)

// PutSpec implements storage.Actions.
func (s *Store) PutSpec(ctx context.Context, a storage.Action, spec storage.Spec,
	checks ...storage.SpecCheck) (storage.Spec, error) {
	if err := spec.Check(); err != nil {
		return storage.Spec{}, err
	}
	var put storage.Spec
	err := s.action(ctx, a.Asking(string(spec.Text), strconv.FormatInt(spec.Version, 10)),
		"put_job", "job "+spec.Job, &put,
		func(ctx context.Context, d *actionTx) (err error) {
			if err := refuseConfigured(ctx, d, spec.Job); err != nil {
				return err
			}
			if err := s.checkSpecs(ctx, d, checks); err != nil {
				return err
			}
			d.controlState = true
			if spec.Version == 0 {
				put, err = specBy(ctx, d, addSpec, spec.Job, spec.Version, spec.Job,
					string(spec.Text), a.Actor)
			} else {
				put, err = specBy(ctx, d, changeSpec, spec.Job, spec.Version, spec.Job,
					string(spec.Text), a.Actor, spec.Version)
			}
			d.detail = map[string]any{"version": put.Version, "spec": put.Text}
			return err
		})
	return put, err
}

// RemoveSpec implements storage.Actions.
func (s *Store) RemoveSpec(ctx context.Context, a storage.Action, job string, version int64,
	checks ...storage.SpecCheck) error {
	if err := (storage.Target{Kind: storage.TargetJob, Name: job}).Check(); err != nil {
		return err
	}
	return s.action(ctx, a.Asking(strconv.FormatInt(version, 10)), "remove_job", "job "+job, nil,
		func(ctx context.Context, d *actionTx) error {
			if err := refuseConfigured(ctx, d, job); err != nil {
				return err
			}
			if err := s.checkSpecs(ctx, d, checks); err != nil {
				return err
			}
			removed, err := specBy(ctx, d, removeSpec, job, version, job, a.Actor, version)
			if err != nil {
				return err
			}
			cancelled, err := cancelWaitingOf(ctx, d, job, a.By("its job was removed"))
			d.controlState, d.detail = true,
				map[string]any{"version": removed.Version, "cancelled_runs": cancelled}
			d.last.Queue(lockDefinitions, s.cluster.String())
			d.last.Queue(dropCarriers, job)
			d.last.Queue(deactivateJob, job)
			return err
		})
}

// checkSpecs calls the checks with the added jobs, which cannot change until the commit.
func (s *Store) checkSpecs(ctx context.Context, tx pgx.Tx, checks []storage.SpecCheck) error {
	if len(checks) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, lockSpecs, s.cluster.String()); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, addedSpecs) // sees all commits before it got the lock
	if err != nil {
		return err
	}
	added, err := pgx.CollectRows(rows, scanSpec)
	if err != nil {
		return err
	}
	for _, check := range checks {
		if err := check(added); err != nil {
			return err
		}
	}
	return nil
}

func refuseConfigured(ctx context.Context, tx pgx.Tx, job string) error {
	var configured bool
	if err := tx.QueryRow(ctx, comesFromConfig, job).Scan(&configured); err != nil || !configured {
		return err
	}
	return fmt.Errorf("job %s: %w", job, storage.ErrFromConfig)
}

// specBy runs a statement that writes the job's spec if it has the version that the caller has
// seen.
func specBy(ctx context.Context, tx pgx.Tx, sql, job string, seen int64,
	args ...any) (storage.Spec, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return storage.Spec{}, err
	}
	specs, err := pgx.CollectRows(rows, scanSpec)
	if err != nil {
		return storage.Spec{}, err
	}
	if len(specs) > 0 {
		return specs[0], nil
	}
	if rows, err = tx.Query(ctx, oneSpec, job); err != nil {
		return storage.Spec{}, err
	}
	if specs, err = pgx.CollectRows(rows, scanSpec); err != nil {
		return storage.Spec{}, err
	}
	if len(specs) == 0 {
		return storage.Spec{}, fmt.Errorf("added job %s: %w", job, storage.ErrNotFound)
	}
	return storage.Spec{}, specs[0].Conflict(seen)
}

func scanSpec(row pgx.CollectableRow) (storage.Spec, error) {
	var s storage.Spec
	err := row.Scan(&s.Job, &s.Text, &s.Version, &s.ChangedAt, &s.ChangedBy, &s.Removed)
	s.ChangedAt = s.ChangedAt.UTC()
	return s, err
}

// cancelWaitingOf ends the waiting runs of the job, and returns how many there were.
func cancelWaitingOf(ctx context.Context, tx pgx.Tx, job, detail string) (int64, error) {
	rows, err := tx.Query(ctx, waitingOf, job)
	if err != nil {
		return 0, err
	}
	runs, err := pgx.CollectRows(rows, pgx.RowTo[rawID])
	if err != nil || len(runs) == 0 {
		return 0, err
	}
	if _, err := tx.Exec(ctx, lockWaits, runs); err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, cancelWaiting, runs, detail)
	return tag.RowsAffected(), err
}
