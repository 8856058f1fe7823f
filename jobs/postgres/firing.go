package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	firingJob = `
SELECT clock_timestamp(), d.version, j.version < 0, d.hash, d.schedule, d.zone, d.job_group,
    j.updated_at, j.checked_until
FROM holdfast.jobs j JOIN holdfast.definitions d ON d.job = j.name AND d.version = abs(j.version)
    WHERE j.name = $1`

	firingRuns = selectRuns + ` WHERE r.job = $1 AND r.scheduled_at = $2 AND r.key = ''
		ORDER BY r.recovery`

	manualRuns = selectRuns + ` WHERE r.job = $1 AND r.scheduled_at = $2 AND r.key <> ''
		AND r.` + byScheduledTime + ` ORDER BY r.created_at, r.id LIMIT $3`
)

// Firing implements storage.History.
func (s *Store) Firing(ctx context.Context, job string,
	scheduledAt time.Time) (storage.FiringView, error) {
	var v storage.FiringView
	// The job is read before its runs. So if the cursor has passed the scheduled time, no run or
	// record of that time is missing.
	row := s.views.QueryRow(ctx, firingJob, job)
	err := row.Scan(&v.Now, &v.Version, &v.Removed, &v.Hash, &v.Schedule, &v.Zone, &v.Group,
		&v.UpdatedAt, &v.CheckedUntil)
	if err == pgx.ErrNoRows {
		return v, fmt.Errorf("job %s: %w", job, storage.ErrNotFound)
	}
	if err != nil {
		return v, wrap("read firing", err)
	}
	v.Now, v.UpdatedAt, v.CheckedUntil = v.Now.UTC(), v.UpdatedAt.UTC(), v.CheckedUntil.UTC()
	if v.Runs, err = s.firingRecords(ctx, firingRuns, job, scheduledAt); err != nil {
		return v, err
	}
	v.Manual, err = s.firingRecords(ctx, manualRuns, job, scheduledAt, storage.MaxManual)
	return v, err
}

func (s *Store) firingRecords(ctx context.Context, query string,
	args ...any) ([]storage.Record, error) {
	rows, err := s.views.Query(ctx, query, args...)
	if err != nil {
		return nil, wrap("read firing", err)
	}
	records, err := pgx.CollectRows(rows, scanRecord)
	return records, wrap("read firing", err)
}
