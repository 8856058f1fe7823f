package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// markLeft notes which runs wait for a job that nobody carries, and unnotes
	// those whose job somebody carries again. As a rule it writes nothing.
	markLeft = `
UPDATE holdfast_runs AS r SET left_at = CASE WHEN left_at IS NULL THEN ?1 END
WHERE state = 'waiting' AND (left_at IS NULL) = NOT EXISTS (SELECT 1 FROM holdfast_session_jobs c WHERE c.job = r.job)`

	// It follows markLeft.
	abandoned = `
SELECT id FROM holdfast_runs WHERE state = 'waiting' AND left_at <= ?1 AND (session IS NULL OR session NOT IN (SELECT value FROM json_each(?2)))`

	endLeft = `
UPDATE holdfast_runs SET state = CASE attempt WHEN 0 THEN 'skipped' ELSE 'cancelled' END, reason = 'job_gone', detail = ?2, blocker = NULL,
    finished_at = ?3, wait_since = NULL
WHERE id IN (SELECT value FROM json_each(?1)) AND +state = 'waiting'`
)

// endAbandoned ends what waits for a job that nobody has any more, if some
// session has been there all the time: while nobody is up, nobody can carry
// anything.
func (s *Store) endAbandoned(ctx context.Context, tx *sql.Tx, now time.Time) error {
	if _, err := tx.ExecContext(ctx, markLeft, micros(now)); err != nil {
		return err
	}
	if !s.lives.since(now.Add(-jobs.AbandonedAfter)) {
		return nil
	}
	living, err := encode(s.lives.living())
	if err != nil {
		return err
	}
	left, err := idsBy(ctx, tx, abandoned, micros(now.Add(-jobs.AbandonedAfter)), living)
	if err != nil || len(left) == 0 {
		return err
	}
	encoded, err := encode(left)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, endLeft, encoded, jobs.AbandonedDetail, micros(now)); err != nil {
		return err
	}
	return execBatch(ctx, tx, endWants, []uuid.UUID(left))
}

// since reports whether a session lives that did at that time.
func (l *lives) since(at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.all {
		if known.live(time.Now()) && !known.started.After(at) {
			return true
		}
	}
	return false
}
