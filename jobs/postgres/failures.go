package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// failuresBefore reads the runs of a job from its index, and at most as many as the limit says.
const failuresBefore = `
SELECT n.job, f.* FROM unnest($1::text[], $2::timestamptz[], $3::uuid[]) n (job, created_at, id)
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE failed), min(ended_at) FILTER (WHERE failed),
        count(*) = %[1]d AND NOT bool_or(over)
    FROM (
        SELECT over, ended_at, NOT over AND state IN ('failed', 'timed_out', 'lost') AS failed
        FROM (
            SELECT state, coalesce(finished_at, scheduled_at) AS ended_at,
                bool_or(state = 'succeeded') OVER (ORDER BY created_at DESC, id DESC) AS over
            FROM (
                SELECT * FROM holdfast.runs WHERE job = n.job COLLATE "C" AND backfill IS NULL
                    AND (created_at, id) < (n.created_at, n.id) AND ` + byCreation + `
                    ORDER BY created_at DESC, id DESC LIMIT %[1]d) l) w) r) f`

// FailuresBefore implements storage.Listings.
func (s *Store) FailuresBefore(ctx context.Context,
	runs []storage.RunBefore) (map[string]storage.FailedRuns, error) {
	names, created := make([]string, len(runs)), make([]time.Time, len(runs))
	ids := make([]uuid.UUID, len(runs))
	for i, r := range runs {
		names[i], created[i], ids[i] = r.Job, r.Before.CreatedAt, r.Before.ID
	}
	rows, err := s.views.Query(ctx, fmt.Sprintf(failuresBefore, storage.MaxFailures), names,
		created, ids)
	if err != nil {
		return nil, wrap("count failures", err)
	}
	found := make(map[string]storage.FailedRuns, len(runs))
	var job string
	var f storage.FailedRuns
	var since *time.Time
	_, err = pgx.ForEachRow(rows, []any{&job, &f.Number, &since, &f.More}, func() error {
		f.Since = time.Time{}
		if since != nil {
			f.Since = since.UTC()
		}
		found[job] = f
		return nil
	})
	return found, wrap("count failures", err)
}
