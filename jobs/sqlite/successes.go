package sqlite

import (
	"context"
	"database/sql"
	"time"
)

const (
	succeededByItself = `r.state = 'succeeded' AND coalesce(r.params, '{}') = '{}'`

	previousSuccess = `
SELECT max(scheduled_at) FROM (
    SELECT * FROM (SELECT r.scheduled_at FROM holdfast_runs r INDEXED BY holdfast_runs_scheduled
        WHERE r.job = ?1 AND r.key = '' AND r.scheduled_at < ?2 AND ` + succeededByItself + `
        ORDER BY r.scheduled_at DESC LIMIT 1)
    UNION ALL
    SELECT * FROM (SELECT r.scheduled_at FROM holdfast_runs r INDEXED BY holdfast_runs_triggered
        WHERE r.job = ?1 AND r.key <> '' AND r.scheduled_at < ?2 AND ` + succeededByItself + `
        ORDER BY r.scheduled_at DESC LIMIT 1)
    UNION ALL
    SELECT scheduled_at FROM holdfast_successes WHERE job = ?1 AND scheduled_at < ?2
)`

	// rememberSuccesses includes runs that pruning keeps: they succeeded too.
	rememberSuccesses = `
INSERT INTO holdfast_successes AS o (job, scheduled_at)
SELECT r.job, max(r.scheduled_at) FROM json_each(?1) q
CROSS JOIN holdfast_runs r ON r.id = q.value
WHERE ` + succeededByItself + ` GROUP BY r.job
ON CONFLICT (job) DO UPDATE SET scheduled_at = max(o.scheduled_at, excluded.scheduled_at)`
)

// PreviousSuccess implements storage.JobProgress.
func (s *Store) PreviousSuccess(ctx context.Context, job string,
	before time.Time) (time.Time, error) {
	var at sql.NullInt64
	err := s.readers.QueryRowContext(ctx, previousSuccess, job, micros(before)).Scan(&at)
	if err != nil || !at.Valid {
		return time.Time{}, wrap("read previous success", err)
	}
	return fromMicros(at.Int64), nil
}
