package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// carriedByNobody is whether no session carries the job of the run r.
	carriedByNobody = `((SELECT true FROM holdfast.session_jobs c WHERE c.job = r.job LIMIT 1) IS NULL)`

	// markLeft notes which runs wait for a job that nobody carries, and unnotes
	// those whose job somebody carries again. As a rule it writes nothing.
	markLeft = `
UPDATE holdfast.waits SET left_at = CASE WHEN left_at IS NULL THEN clock_timestamp() END WHERE run = ANY(ARRAY(
    SELECT w.run FROM holdfast.waits w
    CROSS JOIN LATERAL (SELECT r.job FROM holdfast.runs r WHERE r.id = w.run OFFSET 0) r
    WHERE w.owner IS NULL AND (w.left_at IS NULL) = ` + carriedByNobody + `
    ORDER BY w.run FOR UPDATE OF w SKIP LOCKED))`

	// endLeft ends what was noted long ago, if some session has been there since:
	// while nobody is up, nobody can carry anything.
	endLeft = `
WITH gone AS (
    DELETE FROM holdfast.waits WHERE run = ANY(ARRAY(
        SELECT w.run FROM holdfast.waits w
        CROSS JOIN LATERAL (SELECT r.job FROM holdfast.runs r WHERE r.id = w.run OFFSET 0) r
        LEFT JOIN holdfast.sessions s ON s.id = w.session
        WHERE w.left_at <= clock_timestamp() - $1::interval AND w.owner IS NULL AND (w.session IS NULL OR s.ended_at IS NOT NULL)
            AND ` + carriedByNobody + ` AND EXISTS (
                SELECT FROM holdfast.sessions l WHERE l.ended_at IS NULL AND l.expires_at > clock_timestamp() AND NOT l.locks
                    AND l.started_at <= clock_timestamp() - $1::interval)
        ORDER BY w.run FOR UPDATE OF w SKIP LOCKED))
    RETURNING run
), unwanted AS (
    DELETE FROM holdfast.wants WHERE run = ANY(ARRAY(SELECT run FROM gone))
)
UPDATE holdfast.runs SET state = CASE attempt WHEN 0 THEN 'skipped' ELSE 'cancelled' END, reason = 'job_gone', detail = $2, blocker = NULL,
    finished_at = clock_timestamp()
WHERE id = ANY(ARRAY(SELECT run FROM gone)) AND state = 'waiting'`
)

// queueAbandoned adds to a sweep what ends runs whose jobs nobody has any more.
func queueAbandoned(b *pgx.Batch) {
	b.Queue(markLeft)
	b.Queue(endLeft, jobs.AbandonedAfter, jobs.AbandonedDetail)
}
