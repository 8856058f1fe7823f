package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	firingJob = `
SELECT d.version, j.version < 0, d.hash, d.schedule, d.zone, d.job_group, j.updated_at,
    j.checked_until
FROM holdfast_jobs j CROSS JOIN holdfast_definitions d ON d.job = j.name
    AND d.version = abs(j.version) WHERE j.name = ?1`

	firingRuns = selectRuns + ` WHERE r.job = ?1 AND r.scheduled_at = ?2 AND r.key = ''
		ORDER BY r.recovery`

	// The plus keeps the index of all runs of the job by created_at out of the plan.
	manualRuns = selectRuns + ` WHERE r.job = ?1 AND r.scheduled_at = ?2 AND r.key <> ''
		ORDER BY +r.created_at, r.id LIMIT ?3`
)

// Firing implements storage.History.
func (s *Store) Firing(ctx context.Context, job string,
	scheduledAt time.Time) (storage.FiringView, error) {
	v := storage.FiringView{Now: time.Now().UTC()}
	// The job is read before its runs. So if the cursor has passed the scheduled time, no run or
	// record of that time is missing.
	var updated, checked int64
	err := s.readers.QueryRowContext(ctx, firingJob, job).
		Scan(&v.Version, &v.Removed, &v.Hash, &v.Schedule, &v.Zone, &v.Group,
			&updated, &checked)
	if errors.Is(err, sql.ErrNoRows) {
		return v, fmt.Errorf("job %s: %w", job, storage.ErrNotFound)
	}
	if err != nil {
		return v, wrap("read firing", err)
	}
	v.UpdatedAt, v.CheckedUntil = fromMicros(updated), fromMicros(checked)
	if v.Runs, err = s.records(ctx, firingRuns, job, micros(scheduledAt)); err != nil {
		return v, wrap("read firing", err)
	}
	v.Manual, err = s.records(ctx, manualRuns, job, micros(scheduledAt), storage.MaxManual)
	return v, wrap("read firing", err)
}
