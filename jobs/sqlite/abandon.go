package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	abandoned = `
SELECT r.id FROM holdfast_runs r CROSS JOIN holdfast_jobs j ON j.name = r.job
WHERE r.state = 'waiting' AND r.wait_since < ?1
    AND (r.session IS NULL OR r.session NOT IN (SELECT value FROM json_each(?2))) AND ` + wasAbsent

	endLeft = `
UPDATE holdfast_runs SET state = CASE attempt WHEN 0 THEN 'skipped' ELSE 'cancelled' END,
    reason = 'job_gone', detail = ?2, blocker = NULL,
    finished_at = ?3, wait_since = NULL
WHERE id IN (SELECT value FROM json_each(?1)) AND +state = 'waiting'`
)

// endAbandoned ends the waiting runs of jobs that have been absent from the cron table for too
// long. No replica adopts them.
func (s *Store) endAbandoned(ctx context.Context, tx *sql.Tx, now time.Time) error {
	live, err := encode(s.sessions.liveIDs())
	if err != nil {
		return err
	}
	left, err := idsBy(ctx, tx, abandoned, micros(now.Add(-storage.MaxAbsence)), live,
		storage.MaxAbsence.Microseconds())
	if err != nil || len(left) == 0 {
		return err
	}
	encoded, err := encode(left)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, endLeft, encoded, storage.JobGoneDetail,
		micros(now)); err != nil {
		return err
	}
	return execBatch(ctx, tx, endWants, left)
}
