package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// It skips a session that a start has locked FOR KEY SHARE: the next sweep takes it with the
	// start's grants. A program without jobs takes only sessions that have locks, because it does
	// not know which runs to recover.
	markExpired = `
UPDATE holdfast.sessions SET sweep = $1 WHERE id IN (
    SELECT id FROM holdfast.sessions WHERE ended_at IS NULL AND expires_at <= clock_timestamp()
        AND (locks OR NOT $2)
    ORDER BY id FOR UPDATE SKIP LOCKED)
RETURNING replica`

	// No replica may adopt the wait of a lock.
	endSweptWaits = `
WITH gone AS (
    DELETE FROM holdfast.waits WHERE run = ANY(ARRAY(
        SELECT run FROM holdfast.waits
        WHERE run = ANY(ARRAY(SELECT w.run FROM holdfast.waits w
            WHERE w.session = ` + sweptSessions + ` AND w.owner IS NOT NULL))
        ORDER BY run FOR UPDATE))
    RETURNING run
)
DELETE FROM holdfast.wants WHERE run = ANY(ARRAY(SELECT run FROM gone))`

	sweptSessions = `ANY(ARRAY(SELECT s.id FROM holdfast.sessions s
		WHERE s.sweep = $1 AND s.ended_at IS NULL))`

	// It skips a claim that an open transaction of its job or program has locked: that transaction
	// may still commit, and then the run was not lost.
	releaseSwept = `
WITH gone AS (
    DELETE FROM holdfast.claims WHERE token = ANY(ARRAY(
        SELECT token FROM holdfast.claims
        WHERE token = ANY(ARRAY(SELECT c.token FROM holdfast.claims c
            WHERE c.session = ` + sweptSessions + ` AND c.owner IS NOT NULL))
        ORDER BY token FOR UPDATE SKIP LOCKED))
    RETURNING token, run, owner
), freed AS (
    DELETE FROM holdfast.grants WHERE token + 0 = ANY(ARRAY(SELECT token FROM gone))
        RETURNING token, resource, mode, slots
)
SELECT gone.run, gone.token, gone.owner, f.requests
FROM gone LEFT JOIN (
    SELECT token, jsonb_agg(jsonb_build_object('resource', resource, 'mode', mode, 'slots', slots)
        ORDER BY resource) AS requests
    FROM freed GROUP BY token) f USING (token)
ORDER BY gone.token`

	loseRuns = `
WITH gone AS (
    DELETE FROM holdfast.claims WHERE token = ANY(ARRAY(
        SELECT token FROM holdfast.claims
        WHERE token = ANY(ARRAY(SELECT c.token FROM holdfast.claims c
            WHERE c.session = ANY(ARRAY(SELECT s.id FROM holdfast.sessions s
                WHERE s.sweep = $3 AND s.ended_at IS NULL)) AND c.owner IS NULL))
        ORDER BY token FOR UPDATE SKIP LOCKED))
    RETURNING token, run
), freed AS (
    DELETE FROM holdfast.grants WHERE token + 0 = ANY(ARRAY(SELECT token FROM gone))
        RETURNING token, resource, mode, slots
), lost AS (
    UPDATE holdfast.runs r SET state = 'lost', reason = 'session_lost',
        finished_at = clock_timestamp(),
        detail = 'its replica stopped renewing its session' || CASE WHEN r.recovery >= $1
            AND ` + recovers + ` THEN $2 ELSE '' END
    WHERE r.id = ANY(ARRAY(SELECT run FROM gone)) AND r.state = 'running'
    RETURNING r.id, r.job, r.scheduled_at, r.key, r.recovery, r.attempt, r.replica, r.token,
        r.created_at, r.reason, r.params, r.key_actor, r.backfill
), ` + addSuccessors + `, waiting AS (
    INSERT INTO holdfast.waits (run, since) SELECT id, clock_timestamp() FROM successors
)
SELECT id, job, scheduled_at, key, recovery, attempt, replica, token, created_at,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('resource', f.resource, 'mode', f.mode, 'slots',
        f.slots) ORDER BY f.resource), '[]') FROM freed f WHERE f.token = lost.token)
FROM lost ORDER BY job, scheduled_at`

	endSwept = `
UPDATE holdfast.sessions SET ended_at = clock_timestamp()
WHERE sweep = $1 AND ended_at IS NULL AND (SELECT true FROM holdfast.claims c
    WHERE c.session = sessions.id LIMIT 1) IS NULL`

	nextExpiry = `
SELECT coalesce(min(expires_at) - clock_timestamp(), '0') FROM holdfast.sessions
WHERE ended_at IS NULL AND expires_at > clock_timestamp()`

	// The session that ended last remains, because it shows since when no replica was live.
	forgetSessions = `
WITH gone AS (
    DELETE FROM holdfast.sessions s WHERE ended_at < clock_timestamp() - $1::interval
        AND (locks OR id <> (SELECT l.id FROM holdfast.sessions l
            WHERE l.ended_at IS NOT NULL AND NOT l.locks ORDER BY l.renewed_at DESC, l.id LIMIT 1))
        AND NOT EXISTS (SELECT FROM holdfast.waits w WHERE w.session = s.id) AND NOT ` + hasJobs + `
    RETURNING id, replica, version, started_at, expires_at, ended_at, stopped, drains, locks,
        removed
)
INSERT INTO holdfast.past_sessions (id, replica, version, started_at, expires_at, ended_at, stopped,
    drains)
SELECT id, replica, version, started_at, expires_at, ended_at, stopped, drains FROM gone
WHERE NOT locks AND NOT removed ON CONFLICT (id) DO NOTHING`

	forgetPast = `DELETE FROM holdfast.past_sessions
		WHERE ended_at < now() - $1::interval`

	// forgetFences deletes fences that no transaction has locked. A name that is still in use gets
	// a new fence, which costs less than a search for the names in use.
	forgetFences = `DELETE FROM holdfast.fences WHERE resource = ANY(ARRAY(
    SELECT resource FROM holdfast.fences WHERE added_at < now() - $1::interval
    ORDER BY added_at LIMIT 10000 FOR UPDATE SKIP LOCKED))`

	stuckClaims = `
SELECT c.token FROM holdfast.claims c WHERE c.session = ` + sweptSessions

	// pinnedSessions are the sessions that this sweep skipped although they expired long ago: a
	// backend has locked them.
	pinnedSessions = `
SELECT id FROM holdfast.sessions
WHERE ended_at IS NULL AND expires_at < clock_timestamp() - $3::interval AND sweep IS DISTINCT
    FROM $1 AND (locks OR NOT $2)`
)

// fencesKept is the age from which a sweep deletes fences that no transaction has locked.
const fencesKept = time.Hour

// pinnedAfter is the age, of an expired session and of a transaction, from which the transaction is
// not a start in progress. A start takes milliseconds, or seconds if it waits for rows.
const pinnedAfter = 5 * time.Second

// Sweep implements storage.Upkeep.
func (s *Store) Sweep(ctx context.Context) (storage.Swept, error) {
	swept, left, err := s.loseExpired(ctx)
	if err != nil {
		return swept, err
	}
	var failed []error
	for _, session := range left.unsettled {
		failed = append(failed, s.settle(ctx, session))
	}
	failed = append(failed, s.foldTallies(ctx, uuid.New()))
	swept.Ended, err = s.endHeld(ctx, left)
	return swept, errors.Join(append(failed, err)...)
}

// endHeld ends the backends that hold the rows that the sweep skipped, and returns how many it has
// ended. The next sweep takes these rows. A backend of another role, which cannot be ended, does
// not keep it from the other rows.
func (s *Store) endHeld(ctx context.Context, left leftover) (ended int, err error) {
	var rows []heldRow
	for _, token := range left.stuck {
		rows = append(rows, heldClaim(token))
	}
	for _, session := range left.pinned {
		rows = append(rows, s.heldSession(session))
	}
	var failed []error
	for _, row := range rows {
		n, err := s.endHolders(ctx, row)
		ended += n
		failed = append(failed, err)
	}
	return ended, errors.Join(failed...)
}

// leftover lists the rows that a sweep has skipped.
type leftover struct {
	unsettled []uuid.UUID  // sessions
	stuck     []jobs.Token // claims that it had to pass over
	pinned    []uuid.UUID  // sessions that it had to pass over
}

// loseExpired takes back the claims and waits of expired sessions.
func (s *Store) loseExpired(ctx context.Context) (storage.Swept, leftover, error) {
	var swept storage.Swept
	var left leftover
	sweep := uuid.New()
	err := s.pipeline(ctx, "sweep", func(b *pgx.Batch) {
		b.Queue(markExpired, sweep, false).Query(func(rows pgx.Rows) (err error) {
			swept.Sessions, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		queueReleases(b, sweep, &swept.Released)
		b.Queue(loseRuns, storage.MaxRecoveries, storage.NotRecovered, sweep).
			Query(func(rows pgx.Rows) (err error) {
				swept.Lost, err = pgx.CollectRows(rows, lostRun)
				return err
			})
		b.Queue(endSwept, sweep)
		b.Queue(cancelLeft)
		b.Queue(endLeft, storage.MaxAbsence, storage.JobGoneDetail)
		s.queueHeld(b, sweep, false, &left)
		b.Queue(unsettled).Query(func(rows pgx.Rows) (err error) {
			left.unsettled, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			return err
		})
		b.Queue(forgetSessions, storage.SessionsKept)
		b.Queue(forgetPast, storage.ReplicaSessionsKept)
		b.Queue(forgetFences, fencesKept)
		b.Queue(forgetCancels)
		b.Queue(nextExpiry).QueryRow(func(row pgx.Row) error {
			return row.Scan(&swept.NextExpiry)
		})
	})
	if err != nil {
		return storage.Swept{}, leftover{}, err
	}
	return swept, left, nil
}

// queueHeld reads the rows that the sweep skipped.
func (s *Store) queueHeld(b *pgx.Batch, sweep uuid.UUID, locksOnly bool, left *leftover) {
	b.Queue(stuckClaims, sweep).Query(func(rows pgx.Rows) (err error) {
		left.stuck, err = pgx.CollectRows(rows, pgx.RowTo[jobs.Token])
		return err
	})
	b.Queue(pinnedSessions, sweep, locksOnly, s.pinnedAfter).Query(func(rows pgx.Rows) (err error) {
		left.pinned, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
}

func lostRun(row pgx.CollectableRow) (storage.LostRun, error) {
	r := storage.LostRun{Record: storage.Record{State: jobs.Lost, Reason: reasons.SessionLost}}
	var held []byte
	err := row.Scan(&r.ID, &r.Job, &r.ScheduledAt, &r.Key, &r.Recovery, &r.Attempt, &r.Replica,
		&r.Token, &r.CreatedAt, &held)
	if err != nil {
		return r, err
	}
	r.ScheduledAt, r.CreatedAt = r.ScheduledAt.UTC(), r.CreatedAt.UTC()
	r.Held, err = parseRequests(held)
	return r, err
}
