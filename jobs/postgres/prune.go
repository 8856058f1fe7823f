package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// takeTurn does nothing while another session has the turn.
	takeTurn = `
INSERT INTO holdfast.turns AS o (work, session, until) SELECT $1, $2, t + interval '30 seconds'
    FROM clock_timestamp() t
ON CONFLICT (work) DO UPDATE SET session = excluded.session, until = excluded.until
WHERE o.session = excluded.session OR o.until <= clock_timestamp()`

	// pruneRest deletes the rows that belong to the runs in gone, and remembers the last success of
	// each job.
	pruneRest = `successes AS (
    INSERT INTO holdfast.successes AS o (job, scheduled_at)
    SELECT job, max(scheduled_at) FROM gone WHERE succeeded GROUP BY job
    ON CONFLICT (job) DO UPDATE SET scheduled_at = excluded.scheduled_at
        WHERE o.scheduled_at < excluded.scheduled_at
), outputs AS (
    DELETE FROM holdfast.outputs WHERE run = ANY(ARRAY(SELECT id FROM gone))
), attempts AS (
    DELETE FROM holdfast.run_attempts WHERE run = ANY(ARRAY(SELECT id FROM gone))
)`

	// pruneRuns scans the history from its beginning, or from the end of the previous batch, which
	// leaves dead index entries before it.
	//
	// It retains the following runs:
	//   - A run after its job's cursor. Without it the scheduled time would count as not started.
	//   - A run after the cursor of a dependent that a session has, which may be paused. Without it
	//     the dependent would never handle the firing.
	//   - A run with pending webhook deliveries.
	//   - The last ended run of each job, which may be due only once a year.
	//
	// It deletes all rows that belong to a run, and remembers the last success of each job.
	pruneRuns = `
WITH old AS (
    SELECT id, created_at FROM holdfast.runs
    WHERE created_at < now() - $1::interval AND (created_at, id) > ($2, $3) AND ` + byCreation + `
        ORDER BY created_at, id LIMIT $4
), dependencies AS MATERIALIZED (
    SELECT a.name, min(j.checked_until) AS until
    FROM holdfast.definitions d
    CROSS JOIN LATERAL (
        SELECT j.checked_until FROM holdfast.jobs j WHERE j.name = d.job AND j.version = d.version
            AND (SELECT true FROM holdfast.session_jobs c
                WHERE c.job = d.job AND c.version = d.version LIMIT 1) OFFSET 0) j
    CROSS JOIN LATERAL unnest(d.after) AS a (name)
    WHERE d.after <> '{}' AND cardinality(d.after) > 0 GROUP BY a.name
), gone AS (
    DELETE FROM holdfast.runs r WHERE r.id = ANY(ARRAY(SELECT id FROM old))
        AND r.state NOT IN ('waiting', 'running')
        AND coalesce(r.finished_at, r.created_at) < now() - $1::interval
        AND (r.key <> '' OR (SELECT r.scheduled_at > j.checked_until FROM holdfast.jobs j
            WHERE j.name = r.job) IS NOT TRUE)
        AND (r.key <> '' OR (SELECT r.scheduled_at > f.until FROM dependencies f
            WHERE f.name = r.job) IS NOT TRUE)
        AND (SELECT true FROM holdfast.deliveries d WHERE d.run = r.id LIMIT 1) IS NULL
        AND (SELECT true FROM holdfast.runs y
            WHERE y.job = r.job AND (y.created_at, y.id) > (r.created_at, r.id)
            AND y.` + byCreation + `
            AND y.state NOT IN ('waiting', 'running') ORDER BY y.created_at, y.id LIMIT 1)
    RETURNING r.id, r.job, r.scheduled_at, ` + succeededByItself + ` AS succeeded
), ` + pruneRest + `
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM old), created_at, id FROM old
    ORDER BY created_at DESC, id DESC LIMIT 1`

	// pruneTriggered deletes ended runs of triggers. It retains the same runs as pruneRuns.
	pruneTriggered = `
WITH old AS MATERIALIZED (
    SELECT t.id FROM holdfast.jobs j CROSS JOIN LATERAL (
        SELECT r.id FROM holdfast.runs r WHERE r.job = j.name AND r.key <> ''
            AND r.backfill IS NULL
            AND r.scheduled_at < now() - $1::interval AND r.` + beforeInfinity + `
            AND r.state NOT IN ('waiting', 'running')
            AND coalesce(r.finished_at, r.created_at) < now() - $1::interval
            AND (SELECT true FROM holdfast.deliveries d WHERE d.run = r.id LIMIT 1) IS NULL
            AND (SELECT true FROM holdfast.runs y
                WHERE y.job = r.job AND (y.created_at, y.id) > (r.created_at, r.id)
                AND y.` + byCreation + `
                AND y.state NOT IN ('waiting', 'running')
                ORDER BY y.created_at, y.id LIMIT 1)
        ORDER BY r.scheduled_at LIMIT $2) t LIMIT $2
), gone AS (
    DELETE FROM holdfast.runs r WHERE r.id = ANY(ARRAY(SELECT id FROM old))
    RETURNING r.id, r.job, r.scheduled_at, ` + succeededByItself + ` AS succeeded
), ` + pruneRest + `
SELECT count(*) FROM gone`

	// pruneAudit deletes entries with a link only with the beginning of the chain, which ends with
	// the last old link before the first young one. A link whose time is ahead of the clock is
	// neither old nor young, so that it does not keep later links. It also deletes rows of the
	// queue whose entry is missing, if they are old or ahead of the clock. It runs after lockChain.
	// Entries never change, so their positions in the table stay valid.
	pruneAudit = `
WITH links AS MATERIALIZED (
    SELECT seq, at < now() - $1::interval AS old,
        at >= now() - $1::interval AND at <= now() AS young
    FROM holdfast.audit_links
    WHERE seq > (SELECT anchor_seq FROM holdfast.audit_chain WHERE one) ORDER BY seq LIMIT $2
), unchained AS (
    DELETE FROM holdfast.audit_links WHERE seq = ANY(ARRAY(
        SELECT seq FROM links WHERE seq <= (SELECT max(seq) FROM links
            WHERE old AND (SELECT min(seq) FROM links WHERE young) <= seq IS NOT TRUE)))
    RETURNING seq, entry, at, hash
), old AS (
    SELECT id, at FROM holdfast.audit WHERE at < now() - $1::interval ORDER BY at, id LIMIT $2
), doomed AS MATERIALIZED (
    SELECT entry AS id, at FROM unchained UNION SELECT id, at FROM old
        WHERE (SELECT true FROM holdfast.audit_links l WHERE l.entry = old.id LIMIT 1) IS NULL
), queued AS (
    (SELECT entry, at FROM holdfast.audit_unsealed WHERE at < now() - $1::interval ORDER BY at
        LIMIT $2)
    UNION ALL
    (SELECT entry, at FROM holdfast.audit_unsealed WHERE at > now() + interval '1 minute'
        ORDER BY at LIMIT $2)
), unqueued AS (
    DELETE FROM holdfast.audit_unsealed WHERE entry = ANY(ARRAY(
        SELECT id FROM doomed UNION ALL SELECT entry FROM queued q
            WHERE (SELECT a.id = q.entry FROM (
                SELECT id FROM holdfast.audit WHERE (at, id) >= (q.at, q.entry) ORDER BY at, id
                    LIMIT 1) a) IS NOT TRUE))
), chain AS (
    UPDATE holdfast.audit_chain SET pruned = pruned + 1,
        anchor_seq = coalesce((SELECT max(seq) FROM unchained), anchor_seq),
        anchor_hash = coalesce((SELECT hash FROM unchained ORDER BY seq DESC LIMIT 1), anchor_hash)
    WHERE one AND (SELECT true FROM doomed LIMIT 1)
)
DELETE FROM holdfast.audit WHERE ctid = ANY(ARRAY(
    SELECT a.ctid FROM doomed d CROSS JOIN LATERAL (
        SELECT ctid, id FROM holdfast.audit WHERE (at, id) >= (d.at, d.id) ORDER BY at, id LIMIT 1
    ) a WHERE a.id = d.id))`

	prunePauses = `
DELETE FROM holdfast.pauses WHERE id = ANY(ARRAY(
    SELECT id FROM holdfast.pauses WHERE resumed_at < now() - $1::interval LIMIT $2))`

	pruneWaitHistory = `
DELETE FROM holdfast.wait_history WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM holdfast.wait_history WHERE until < now() - $1::interval ORDER BY until
        LIMIT $2))`

	pruneRestarts = `DELETE FROM holdfast.restarts WHERE noticed_at < now() - $1::interval`

	// markIdle marks the definitions that nothing uses, and unmarks those that a session has again.
	markIdle = `
WITH seen AS (
    SELECT d.job, d.version, d.idle_since IS NOT NULL AS noted,
        (SELECT true FROM holdfast.session_jobs c WHERE c.job = d.job AND c.version = d.version
            LIMIT 1) IS NULL
        AND (SELECT abs(j.version) = d.version FROM holdfast.jobs j
            WHERE j.name = d.job) IS NOT TRUE AS idle
    FROM holdfast.definitions d
)
UPDATE holdfast.definitions d SET idle_since = CASE WHEN s.idle THEN now() END FROM seen s
WHERE s.noted <> s.idle AND d.job = s.job AND d.version = s.version`

	// The newest version of a job remains, because the next version is counted from it.
	pruneDefinitions = `
WITH gone AS (
    DELETE FROM holdfast.definitions d WHERE d.idle_since < now() - $1::interval
        AND d.version < (SELECT max(o.version) FROM holdfast.definitions o WHERE o.job = d.job)
    RETURNING d.job, d.version
), subscriptions AS (
    DELETE FROM holdfast.subscriptions s USING gone g WHERE s.job = g.job AND s.version = g.version
)
SELECT FROM gone`
)

// commitLate makes the transaction not wait for the disk. If the server crashes, at most the last
// batches are pruned again.
const commitLate = "SELECT set_config('synchronous_commit', 'off', true)"

// Prune implements storage.Upkeep.
func (s *Store) Prune(ctx context.Context, session uuid.UUID,
	r storage.PruneRequest) (storage.Pruned, error) {
	var pruned storage.Pruned
	err := s.pipeline(ctx, "take turn at pruning", func(b *pgx.Batch) {
		b.Queue(commitLate)
		b.Queue(takeTurn, "prune", session).Exec(func(tag pgconn.CommandTag) error {
			pruned.Busy = tag.RowsAffected() == 0
			return nil
		})
	})
	if err != nil || pruned.Busy {
		return pruned, err
	}
	if r.Triggered {
		err = s.pipeline(ctx, "prune runs of triggers", func(b *pgx.Batch) {
			b.Queue(commitLate)
			b.Queue(pruneTriggered, r.Keep, r.Limit).QueryRow(func(row pgx.Row) error {
				return row.Scan(&pruned.Runs)
			})
		})
		pruned.More = pruned.Runs == r.Limit
		return pruned, err
	}
	if r.After == nil {
		if pruned.Definitions, err = s.pruneDefinitions(ctx, r.Keep); err != nil {
			return storage.Pruned{}, err
		}
	}
	err = s.pipeline(ctx, "prune history", func(b *pgx.Batch) {
		b.Queue(commitLate)
		queuePruneRuns(b, r, &pruned)
		b.Queue(lockChain)
		b.Queue(pruneAudit, r.Keep, r.Limit).Exec(counted(&pruned.Audited))
		b.Queue(prunePauses, r.Keep, r.Limit).Exec(counted(&pruned.Pauses))
		b.Queue(pruneWaitHistory, r.Keep, r.Limit).Exec(counted(&pruned.Waits))
		b.Queue(pruneRestarts, r.Keep)
		b.Queue(pruneTallies, r.Keep, r.Limit)
	})
	if err != nil {
		return storage.Pruned{}, err
	}
	return pruned, nil
}

// counted returns a function that stores how many rows a statement affected.
func counted(n *int) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*n = int(tag.RowsAffected())
		return nil
	}
}

func queuePruneRuns(b *pgx.Batch, r storage.PruneRequest, pruned *storage.Pruned) {
	after := storage.RunCursor{CreatedAt: time.Unix(0, 0)} // before all runs
	if r.After != nil {
		after = *r.After
	}
	b.Queue(pruneRuns, r.Keep, after.CreatedAt, after.ID, r.Limit).
		QueryRow(func(row pgx.Row) error {
			var looked int
			var last storage.RunCursor
			err := row.Scan(&pruned.Runs, &looked, &last.CreatedAt, &last.ID)
			if err == pgx.ErrNoRows {
				return nil
			}
			if looked == r.Limit {
				last.CreatedAt = last.CreatedAt.UTC()
				pruned.Next = &last
			}
			return err
		})
}

// pruneDefinitions deletes definitions while no replica registers any, and everything else that a
// round deletes once.
func (s *Store) pruneDefinitions(ctx context.Context, keep time.Duration) (gone int, err error) {
	err = s.pipeline(ctx, "prune definitions", func(b *pgx.Batch) {
		b.Queue(lockDefinitions, s.cluster.String())
		b.Queue(markIdle)
		b.Queue(pruneDefinitions, keep).Exec(counted(&gone))
		b.Queue(pruneBackfills, keep)
		b.Queue(forgetFailures)
		b.Queue(forgetSignOuts)
	})
	return gone, err
}
