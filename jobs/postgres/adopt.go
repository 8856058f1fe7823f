package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// ownRuns locks nothing, because a start may be locking the waits of the same runs in another
	// order.
	ownRuns = `WITH ` + pausedJobs + selectRuns + `
WHERE r.id = ANY(ARRAY(SELECT w.run FROM holdfast.waits w WHERE w.session = $1
    EXCEPT SELECT unnest($3::uuid[])))
    AND r.job = ANY($2) AND r.state = 'waiting' AND EXISTS (` + sessionLives + ` AND ` + adopts + `)
        AND ` + notHeldBack + `
ORDER BY r.created_at, r.id`

	// notHeldBack is whether a waiting run may start although its job may be paused.
	notHeldBack = `(r.key <> '' AND r.backfill IS NULL OR r.attempt > 1
		OR r.job NOT IN (SELECT job FROM paused))`

	// Sessions are joined (LATERAL) instead of looked up in a subquery: once a row of waits is
	// locked, PostgreSQL evaluates its newest version, but does not repeat a subquery. Rows are
	// locked one by one as they are read.
	//
	// Most of the time no wait is free, and the rest costs nothing. Runs that were triggered for a
	// later time are beyond the end of an index scan. The order makes that scan the cheapest plan.
	//
	// PostgreSQL estimates that an array in a parameter has ten elements, so a join of waits with
	// jobs may compare each with each. The limits of a job are looked up by its key in an object
	// instead.
	//
	// A late run is adopted only if it is the oldest scheduled run of its job that waits. The runs
	// are read before any is adopted, so two adoptions at the same time cannot adopt two of them.
	//
	// A start may have been sent twice, if its outcome was unknown: the second one could grant a
	// run that the first one has left waiting, and that another session has adopted meanwhile. So
	// adoptRuns locks the live sessions from which it takes runs, and skips those that have a start
	// under way.
	adoptRuns = `
WITH ` + pausedJobs + `, leaving AS MATERIALIZED (
    SELECT id FROM holdfast.sessions WHERE (draining OR stopping) AND ended_at IS NULL
    ORDER BY id FOR UPDATE SKIP LOCKED
), waiting AS MATERIALIZED (
    SELECT w.run, w.since, r.*, ` + isFree + ` AS free
    FROM (SELECT * FROM holdfast.waits w WHERE w.since <= (SELECT clock_timestamp())
        ORDER BY w.since OFFSET 0) w LEFT JOIN holdfast.sessions s ON s.id = w.session
    CROSS JOIN LATERAL (SELECT r.job, r.scheduled_at, r.key, r.recovery, r.attempt, r.backfill,
            r.reason
        FROM holdfast.runs r WHERE r.id = w.run OFFSET 0) r
), free AS MATERIALIZED (
    SELECT run, job, scheduled_at, key, recovery, attempt, backfill FROM waiting
    WHERE free AND (reason <> 'no_worker' OR since <= clock_timestamp() - $8::interval)
        AND run NOT IN (SELECT unnest($3::uuid[]))
), oldest AS MATERIALIZED (
    SELECT jsonb_object_agg(job, scheduled_at) AS jobs FROM (
        SELECT job, min(scheduled_at) AS scheduled_at FROM waiting
        WHERE key = '' AND recovery = 0 AND attempt <= 1 AND backfill IS NULL GROUP BY job) o
), asked AS MATERIALIZED (
    SELECT jsonb_object_agg(a.job, jsonb_build_array(a.ahead, a.threshold)) AS jobs
    FROM unnest($2::text[], $5::interval[], $6::interval[]) AS a (job, ahead, threshold)
    WHERE EXISTS (SELECT FROM free)
), late AS (
    SELECT w.run ` + freeRuns + `
        AND (r.key = '' AND r.recovery = 0 AND r.scheduled_at < clock_timestamp() - a.threshold
                AND r.scheduled_at <= ((SELECT jobs FROM oldest) ->> r.job)::timestamptz
            OR r.backfill IS NOT NULL) AND r.attempt <= 1
    ORDER BY w.since - a.ahead, r.scheduled_at, w.run LIMIT $7::int FOR UPDATE OF w SKIP LOCKED
), prompt AS (
    SELECT w.run ` + freeRuns + `
        AND (r.attempt > 1 OR r.backfill IS NULL AND (r.key <> '' OR r.recovery > 0
            OR r.scheduled_at >= clock_timestamp() - a.threshold))
    ORDER BY w.since - a.ahead, r.scheduled_at, w.run LIMIT $4 FOR UPDATE OF w SKIP LOCKED
), chosen AS (
    SELECT run FROM late UNION ALL SELECT run FROM prompt LIMIT $4
), taken AS (
    UPDATE holdfast.waits w SET session = me.id
    FROM chosen, holdfast.sessions me
    WHERE w.run = chosen.run AND me.id = $1 AND me.ended_at IS NULL
        AND me.expires_at > clock_timestamp() AND ` + adopts + `
    RETURNING w.run, me.id AS session, me.replica
), withdrawn AS (
    DELETE FROM holdfast.wants w WHERE w.run = ANY(ARRAY(SELECT run FROM taken))
        AND NOT ` + ownJobWait + `
)
UPDATE holdfast.runs r SET session = taken.session, replica = taken.replica
FROM taken WHERE r.id = taken.run AND r.id = ANY(ARRAY(SELECT run FROM taken))
    AND r.state = 'waiting'
RETURNING` + recordColumns + `, '', NULL::text`

	// ownJobWait is whether w is a triggered run's wait for its own job, which lasts until the run
	// starts.
	ownJobWait = `(starts_with(w.resource, 'job:')
		AND (SELECT o.triggered FROM holdfast.waits o WHERE o.run = w.run) IS TRUE)`

	// backfillAhead is the head start of storage.BackfillPriority.
	backfillAhead = `interval '-4 minutes'`

	freeRuns = `
    FROM free r
    CROSS JOIN LATERAL (SELECT (SELECT jobs FROM asked) -> r.job AS limits OFFSET 0) j
    CROSS JOIN LATERAL (SELECT CASE WHEN r.backfill IS NULL THEN (j.limits ->> 0)::interval
        ELSE ` + backfillAhead + ` END AS ahead, (j.limits ->> 1)::interval AS threshold) a
    JOIN holdfast.waits w ON w.run = r.run
    LEFT JOIN holdfast.sessions s ON s.id = w.session
    WHERE ` + isFree + ` AND j.limits IS NOT NULL AND ` + notHeldBack

	// isFree is whether any session may adopt the run r with the wait w and the session s. A drain
	// frees the waiting runs of its session, except one that a concurrent transaction adds or
	// adopts. mayBeFree needs no row of r.
	isFree = `(w.session IS NULL OR s.ended_at IS NOT NULL
        OR (s.stopping OR s.draining AND r.attempt <= 1) AND s.id IN (SELECT id FROM leaving))`
	mayBeFree = `(w.session IS NULL OR s.ended_at IS NOT NULL OR s.stopping OR s.draining)`

	adopts = `NOT (draining OR stopping)` // of a live session

	// adoptableJobs reads the jobs of the runs that adoptRuns and ownRuns may return. Most of the
	// time there are none, and then the names of all jobs need not be sent.
	adoptableJobs = `
SELECT DISTINCT r.job FROM (
    SELECT w.run FROM (SELECT * FROM holdfast.waits w WHERE w.since <= (SELECT clock_timestamp())
        ORDER BY w.since OFFSET 0) w LEFT JOIN holdfast.sessions s ON s.id = w.session
    WHERE ` + mayBeFree + `
  UNION ALL
    SELECT w.run FROM holdfast.waits w WHERE w.session = $1) w
CROSS JOIN LATERAL (SELECT r.job FROM holdfast.runs r WHERE r.id = w.run OFFSET 0) r
WHERE w.run NOT IN (SELECT unnest($2::uuid[]))`

	// hasAdoptable is whether adoptableJobs may return jobs.
	hasAdoptable = `
SELECT EXISTS (SELECT FROM (SELECT * FROM holdfast.waits w
    WHERE w.since <= (SELECT clock_timestamp()) AND w.owner IS NULL ORDER BY w.since OFFSET 0) w
    LEFT JOIN holdfast.sessions s ON s.id = w.session WHERE w.session = $1 OR ` + mayBeFree + `)`

	revokeClaim = `SELECT run FROM holdfast.claims WHERE token = $1 FOR UPDATE NOWAIT`
)

// Adopt implements storage.Upkeep.
func (s *Store) Adopt(ctx context.Context, session uuid.UUID,
	a storage.Adoption) ([]storage.Record, error) {
	known := make([]rawID, len(a.Known))
	for i, run := range a.Known {
		known[i] = run
	}
	adoptable, err := s.adoptableJobs(ctx, session, known)
	if err != nil {
		return nil, err
	}
	asked := slices.DeleteFunc(slices.Clone(a.Jobs), func(j storage.AdoptedJob) bool {
		return !adoptable[j.Name]
	})
	if len(asked) == 0 {
		return nil, nil
	}
	names, ahead, thresholds := adoptedColumns(asked)
	var adopted []storage.Record
	collect := func(rows pgx.Rows) error {
		records, err := pgx.CollectRows(rows, scanRecord)
		adopted = append(adopted, records...)
		return err
	}
	err = s.pipeline(ctx, "adopt runs", func(b *pgx.Batch) {
		b.Queue(holdSession, session)
		b.Queue(ownRuns, session, names, known).Query(collect)
		b.Queue(adoptRuns, session, names, known, a.Limit, ahead, thresholds, a.Late,
			a.MinWait).Query(collect)
	})
	if err != nil {
		return nil, err
	}
	return adopted, nil
}

// adoptableJobs returns the jobs that have runs to adopt.
func (s *Store) adoptableJobs(ctx context.Context, session uuid.UUID,
	known []rawID) (map[string]bool, error) {
	found := map[string]bool{}
	err := s.pipeline(ctx, "look for runs to adopt", func(b *pgx.Batch) {
		b.Queue(adoptableJobs, session, known).Query(func(rows pgx.Rows) error {
			var job string
			_, err := pgx.ForEachRow(rows, []any{&job}, func() error {
				found[job] = true
				return nil
			})
			return err
		})
	})
	return found, err
}

// adoptedColumns returns the names of the jobs, their head starts by priority, and their misfire
// thresholds.
func adoptedColumns(adopted []storage.AdoptedJob) (
	names []string, ahead, thresholds []time.Duration) {
	names, ahead, thresholds = make([]string, len(adopted)), make([]time.Duration, len(adopted)),
		make([]time.Duration, len(adopted))
	for i, j := range adopted {
		names[i], ahead[i], thresholds[i] = j.Name,
			time.Duration(j.Priority-jobs.DefaultPriority)*storage.Ageing, j.Threshold
	}
	return names, ahead, thresholds
}

// Revoke implements storage.Upkeep. If a transaction of the job has locked the claim, Revoke does
// not wait. It returns an error that wraps storage.ErrUnavailable.
func (s *Store) Revoke(ctx context.Context, token jobs.Token, state jobs.State,
	reason jobs.Reason) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var run uuid.UUID
		if err := tx.QueryRow(ctx, revokeClaim, token).Scan(&run); err == pgx.ErrNoRows {
			return nil // gone already
		} else if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(beginByHash, s.lockTimeout)
		queueFinish(b, []storage.FinishRequest{{Run: run, Token: token, State: state,
			Reason: reason,
			Detail: storage.RevokedDetail}}, make([]bool, 1))
		return tx.SendBatch(ctx, b).Close()
	})
	return wrap("revocation", err)
}
