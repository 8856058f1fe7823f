package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// A session that a start holds FOR KEY SHARE is passed over: the next
	// sweep takes it with what the start granted. Who schedules nothing takes
	// only sessions that have locks: it does not know which runs to recover.
	markExpired = `
UPDATE holdfast.sessions SET sweep = $1 WHERE id IN (
    SELECT id FROM holdfast.sessions WHERE ended_at IS NULL AND expires_at <= clock_timestamp() AND (locks OR NOT $2)
    ORDER BY id FOR UPDATE SKIP LOCKED)
RETURNING replica`

	// Nobody is to adopt the place of a lock.
	endSweptPlaces = `
WITH gone AS (
    DELETE FROM holdfast.waits WHERE run = ANY(ARRAY(
        SELECT run FROM holdfast.waits
        WHERE run = ANY(ARRAY(SELECT w.run FROM holdfast.waits w WHERE w.session = ` + sweptSessions + ` AND w.owner IS NOT NULL))
        ORDER BY run FOR UPDATE))
    RETURNING run
)
DELETE FROM holdfast.wants WHERE run = ANY(ARRAY(SELECT run FROM gone))`

	sweptSessions = `ANY(ARRAY(SELECT s.id FROM holdfast.sessions s WHERE s.sweep = $1 AND s.ended_at IS NULL))`

	// A claim that an open transaction of its job or program holds is passed
	// over: that transaction may yet commit, and then the run was not lost.
	releaseSwept = `
WITH gone AS (
    DELETE FROM holdfast.claims WHERE token = ANY(ARRAY(
        SELECT token FROM holdfast.claims
        WHERE token = ANY(ARRAY(SELECT c.token FROM holdfast.claims c WHERE c.session = ` + sweptSessions + ` AND c.owner IS NOT NULL))
        ORDER BY token FOR UPDATE SKIP LOCKED))
    RETURNING token, run, owner
), freed AS (
    DELETE FROM holdfast.grants WHERE token = ANY(ARRAY(SELECT token FROM gone)) RETURNING token, resource, mode, slots
)
SELECT gone.run, gone.token, gone.owner, f.requests
FROM gone LEFT JOIN (
    SELECT token, jsonb_agg(jsonb_build_object('resource', resource, 'mode', mode, 'slots', slots) ORDER BY resource) AS requests
    FROM freed GROUP BY token) f USING (token)
ORDER BY gone.token`

	loseRuns = `
WITH dead AS (
    SELECT c.token FROM holdfast.claims c JOIN holdfast.sessions s ON s.id = c.session
    WHERE s.sweep = $1 AND s.ended_at IS NULL AND c.owner IS NULL ORDER BY c.token FOR UPDATE OF c SKIP LOCKED
), gone AS (
    DELETE FROM holdfast.claims c USING dead WHERE c.token = dead.token RETURNING c.token, c.run
), freed AS (
    DELETE FROM holdfast.grants g USING gone WHERE g.token = gone.token
), lost AS (
    UPDATE holdfast.runs r SET state = 'lost', reason = 'session_lost', detail = 'its replica stopped renewing its session',
        finished_at = clock_timestamp()
    FROM gone WHERE r.id = gone.run AND r.state = 'running'
    RETURNING r.id, r.job, r.due, r.key, r.recovery, r.attempt, r.replica, r.token, r.created_at
), successors AS (
    INSERT INTO holdfast.runs (id, job, due, key, recovery, attempt, state, created_at, reason, detail)
    SELECT gen_random_uuid(), l.job, l.due, l.key, l.recovery + 1, 1, 'waiting', clock_timestamp(), 'session_lost',
        'recovers run ' || l.id || ', lost with replica ' || l.replica
    FROM lost l WHERE l.job = ANY($2) ORDER BY l.job, l.due, l.key, l.recovery
    ON CONFLICT DO NOTHING RETURNING id
), waiting AS (
    INSERT INTO holdfast.waits (run, since) SELECT id, clock_timestamp() FROM successors
)
SELECT id, job, due, key, recovery, attempt, replica, token, created_at FROM lost ORDER BY job, due`

	endSwept = `
UPDATE holdfast.sessions SET ended_at = clock_timestamp()
WHERE sweep = $1 AND ended_at IS NULL AND NOT EXISTS (SELECT FROM holdfast.claims c WHERE c.session = sessions.id)`

	forgetSessions = `DELETE FROM holdfast.sessions WHERE ended_at < clock_timestamp() - interval '1 hour'
    AND NOT EXISTS (SELECT FROM holdfast.waits w WHERE w.session = sessions.id)`

	stuckClaims = `
SELECT c.token FROM holdfast.claims c JOIN holdfast.sessions s ON s.id = c.session WHERE s.sweep = $1 AND s.ended_at IS NULL`

	backendID  = `SELECT pg_backend_pid()`
	lockClaim  = `SELECT FROM holdfast.claims WHERE token = $1 FOR UPDATE`
	endLockers = `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM unnest(pg_blocking_pids($1)) AS b (pid)`
)

// Sweep ends expired sessions. Any replica may call it at any time: it never
// ends a living one.
func (s *Store) Sweep(ctx context.Context, recoverable map[string]bool) (jobs.Swept, error) {
	names := slices.Sorted(maps.Keys(recoverable))
	names = slices.DeleteFunc(names, func(name string) bool { return !recoverable[name] })
	swept, stuck, err := s.loseExpired(ctx, names)
	for _, token := range stuck {
		if err != nil {
			break
		}
		var ended int
		ended, err = s.endHolders(ctx, token)
		swept.Ended += ended
	}
	return swept, err
}

// loseExpired takes back what expired sessions hold, and returns the claims
// that it had to pass over.
func (s *Store) loseExpired(ctx context.Context, recoverable []string) (jobs.Swept, []jobs.Token, error) {
	var swept jobs.Swept
	var stuck []jobs.Token
	sweep := uuid.New()
	err := s.pipeline(ctx, "sweep", func(b *pgx.Batch) {
		b.Queue(markExpired, sweep, false).Query(func(rows pgx.Rows) (err error) {
			swept.Sessions, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		queueReleases(b, sweep, &swept.Released)
		b.Queue(loseRuns, sweep, recoverable).Query(func(rows pgx.Rows) (err error) {
			swept.Lost, err = pgx.CollectRows(rows, lostRecord)
			return err
		})
		b.Queue(endSwept, sweep)
		b.Queue(stuckClaims, sweep).Query(func(rows pgx.Rows) (err error) {
			stuck, err = pgx.CollectRows(rows, pgx.RowTo[jobs.Token])
			return err
		})
		b.Queue(forgetSessions)
	})
	if err != nil {
		return jobs.Swept{}, nil, err
	}
	return swept, stuck, nil
}

func lostRecord(row pgx.CollectableRow) (jobs.Record, error) {
	r := jobs.Record{State: jobs.Lost, Reason: jobs.ReasonSessionLost}
	err := row.Scan(&r.ID, &r.Job, &r.Due, &r.Key, &r.Recovery, &r.Attempt, &r.Replica, &r.Token, &r.CreatedAt)
	r.Due, r.CreatedAt = r.Due.UTC(), r.CreatedAt.UTC()
	return r, err
}

// endHolders ends the backends that hold a dead session's claim in an open
// transaction. PostgreSQL names them exactly once somebody waits for the row;
// an application name would be cut at 63 bytes and could be anybody's.
func (s *Store) endHolders(ctx context.Context, token jobs.Token) (int, error) {
	waiter, err := s.pool.Acquire(ctx)
	if err != nil {
		return 0, wrap("sweep of a held claim", err)
	}
	defer waiter.Release()
	var pid int
	if err := waiter.QueryRow(ctx, backendID).Scan(&pid); err != nil {
		return 0, wrap("sweep of a held claim", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- s.waitForClaim(ctx, waiter.Conn(), token) }()
	for {
		ended := 0
		if err := s.pool.QueryRow(ctx, endLockers, pid).Scan(&ended); err != nil {
			return 0, errors.Join(wrap("end of a claim's holder", err), <-waited)
		}
		if ended > 0 {
			return ended, <-waited
		}
		select {
		case err := <-waited: // released by itself, or not in time
			return 0, err
		case <-time.After(10 * time.Millisecond): // until the waiter is seen to wait
		}
	}
}

// waitForClaim locks the claim and lets go of it at once; a second is enough
// to be seen waiting.
func (s *Store) waitForClaim(ctx context.Context, conn *pgx.Conn, token jobs.Token) error {
	b := &pgx.Batch{}
	b.Queue("SELECT set_config('lock_timeout', $1, true)", s.lockTimeout)
	b.Queue(lockClaim, token)
	err := conn.SendBatch(ctx, b).Close()
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == "55P03" {
		return nil // still held: the next sweep tries again
	}
	return wrap("wait for a held claim", err)
}
