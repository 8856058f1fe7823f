package sqlite

import (
	"context"
	"database/sql"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const statesBefore = `
SELECT state, scheduled_at, finished_at FROM holdfast_runs
WHERE job = ?1 AND backfill IS NULL AND (created_at, id) < (?2, ?3)
ORDER BY created_at DESC, id DESC LIMIT ?4`

// FailuresBefore implements storage.Listings.
func (s *Store) FailuresBefore(ctx context.Context,
	runs []storage.RunBefore) (map[string]storage.FailedRuns, error) {
	found := make(map[string]storage.FailedRuns, len(runs))
	for _, r := range runs {
		var outcomes []storage.Outcome
		if err := each(ctx, s.readers, statesBefore, []any{r.Job, micros(r.Before.CreatedAt),
			r.Before.ID, storage.MaxFailures}, func(rows *sql.Rows) error {
			var o storage.Outcome
			var scheduledAt int64
			var finished sql.NullInt64
			if err := rows.Scan(&o.State, &scheduledAt, &finished); err != nil {
				return err
			}
			o.ScheduledAt, o.FinishedAt = fromMicros(scheduledAt), fromNullMicros(finished)
			outcomes = append(outcomes, o)
			return nil
		}); err != nil {
			return nil, wrap("count failures", err)
		}
		found[r.Job] = storage.CountFailures(outcomes)
	}
	return found, nil
}
