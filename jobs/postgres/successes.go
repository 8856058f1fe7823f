package postgres

import (
	"context"
	"time"
)

const (
	succeededByItself = `(r.state = 'succeeded' AND coalesce(r.params, '{}') = '{}')`

	// previousSuccess reads the history backwards to the last success. Each kind of run has an
	// index by scheduled time.
	previousSuccess = `
SELECT max(p.scheduled_at) FROM (
    (SELECT r.scheduled_at FROM holdfast.runs r
        WHERE r.job = $1 AND r.key = '' AND r.scheduled_at < $2 AND ` + succeededByItself + `
        ORDER BY r.scheduled_at DESC LIMIT 1)
    UNION ALL
    (SELECT r.scheduled_at FROM holdfast.runs r
        WHERE r.job = $1 AND r.key <> '' AND r.scheduled_at < $2
        AND r.` + byScheduledTime + ` AND ` + succeededByItself + `
        ORDER BY r.scheduled_at DESC LIMIT 1)
    UNION ALL
    SELECT s.scheduled_at FROM holdfast.successes s WHERE s.job = $1 AND s.scheduled_at < $2
) p`
)

// PreviousSuccess implements storage.JobProgress.
func (s *Store) PreviousSuccess(ctx context.Context, job string,
	before time.Time) (time.Time, error) {
	var at *time.Time
	err := s.pool.QueryRow(ctx, previousSuccess, job, before).Scan(&at)
	if err != nil || at == nil {
		return time.Time{}, wrap("read previous success", err)
	}
	return at.UTC(), nil
}
