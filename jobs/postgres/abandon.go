package postgres

// endLeft ends the waiting runs of jobs that have been absent from the cron table for too long. No
// replica adopts them.
const endLeft = `
WITH gone AS (
    DELETE FROM holdfast.waits WHERE run = ANY(ARRAY(
        SELECT w.run FROM holdfast.waits w
        CROSS JOIN LATERAL (SELECT r.job FROM holdfast.runs r WHERE r.id = w.run OFFSET 0) r
        CROSS JOIN LATERAL (SELECT j.left_at, j.back_at FROM holdfast.jobs j
            WHERE j.name = r.job OFFSET 0) j
        LEFT JOIN holdfast.sessions s ON s.id = w.session
        WHERE w.owner IS NULL AND w.since < clock_timestamp() - $1::interval
            AND (w.session IS NULL OR s.ended_at IS NOT NULL) AND ` + wasAbsent + `
        ORDER BY w.run FOR UPDATE OF w SKIP LOCKED))
    RETURNING run
), unwanted AS (
    DELETE FROM holdfast.wants WHERE run = ANY(ARRAY(SELECT run FROM gone))
)
UPDATE holdfast.runs SET state = CASE attempt WHEN 0 THEN 'skipped' ELSE 'cancelled' END,
    reason = 'job_gone', detail = $2, blocker = NULL,
    finished_at = clock_timestamp()
WHERE id = ANY(ARRAY(SELECT run FROM gone)) AND state = 'waiting'`
