package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
    WHERE s.sweep = $3 AND s.ended_at IS NULL AND c.owner IS NULL ORDER BY c.token FOR UPDATE OF c SKIP LOCKED
), gone AS (
    DELETE FROM holdfast.claims c USING dead WHERE c.token = dead.token RETURNING c.token, c.run
), freed AS (
    DELETE FROM holdfast.grants g USING gone WHERE g.token = gone.token RETURNING g.token, g.resource, g.mode, g.slots
), lost AS (
    UPDATE holdfast.runs r SET state = 'lost', reason = 'session_lost', finished_at = clock_timestamp(),
        detail = 'its replica stopped renewing its session' || CASE WHEN r.recovery >= $1 AND ` + recovers + ` THEN $2 ELSE '' END
    FROM gone WHERE r.id = gone.run AND r.state = 'running'
    RETURNING r.id, r.job, r.due, r.key, r.recovery, r.attempt, r.replica, r.token, r.created_at, r.reason, r.params
), ` + addSuccessors + `, waiting AS (
    INSERT INTO holdfast.waits (run, since) SELECT id, clock_timestamp() FROM successors
)
SELECT id, job, due, key, recovery, attempt, replica, token, created_at,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('resource', f.resource, 'mode', f.mode, 'slots', f.slots) ORDER BY f.resource), '[]') FROM freed f WHERE f.token = lost.token)
FROM lost ORDER BY job, due`

	endSwept = `
UPDATE holdfast.sessions SET ended_at = clock_timestamp()
WHERE sweep = $1 AND ended_at IS NULL AND NOT EXISTS (SELECT FROM holdfast.claims c WHERE c.session = sessions.id)`

	// The last that ended says since when nobody was up.
	forgetSessions = `DELETE FROM holdfast.sessions s WHERE ended_at < clock_timestamp() - interval '1 hour'
    AND (locks OR id <> (SELECT l.id FROM holdfast.sessions l WHERE l.ended_at IS NOT NULL AND NOT l.locks ORDER BY l.renewed_at DESC, l.id LIMIT 1))
    AND NOT EXISTS (SELECT FROM holdfast.waits w WHERE w.session = s.id) AND NOT ` + carriesJobs

	// forgetFences deletes fences that nobody is locking. A name that is still
	// in use gets another: that costs less than to find out who uses which.
	forgetFences = `DELETE FROM holdfast.fences WHERE resource = ANY(ARRAY(
    SELECT resource FROM holdfast.fences WHERE added_at < now() - interval '1 hour'
    ORDER BY added_at LIMIT 10000 FOR UPDATE SKIP LOCKED))`

	stuckClaims = `
SELECT c.token FROM holdfast.claims c JOIN holdfast.sessions s ON s.id = c.session WHERE s.sweep = $1 AND s.ended_at IS NULL`

	backendID  = `SELECT pg_backend_pid()`
	lockClaim  = `SELECT FROM holdfast.claims WHERE token = $1 FOR UPDATE`
	endLockers = `SELECT b.pid FROM unnest(pg_blocking_pids($1)) AS b (pid) WHERE pg_terminate_backend(b.pid)`
)

// Sweep ends expired sessions. Any replica may call it at any time: it never
// ends a living one.
func (s *Store) Sweep(ctx context.Context) (jobs.Swept, error) {
	swept, left, err := s.loseExpired(ctx)
	for _, session := range left.unsettled {
		if err != nil {
			break
		}
		err = s.settle(ctx, session)
	}
	for _, token := range left.stuck {
		if err != nil {
			break
		}
		var ended int
		ended, err = s.endHolders(ctx, token)
		swept.Ended += ended
	}
	return swept, err
}

// leftover is what a sweep has still to do once it has taken back what it
// could.
type leftover struct {
	unsettled []uuid.UUID  // sessions
	stuck     []jobs.Token // claims that it had to pass over
}

// loseExpired takes back what expired sessions hold.
func (s *Store) loseExpired(ctx context.Context) (jobs.Swept, leftover, error) {
	var swept jobs.Swept
	var left leftover
	sweep := uuid.New()
	err := s.pipeline(ctx, "sweep", func(b *pgx.Batch) {
		b.Queue(markExpired, sweep, false).Query(func(rows pgx.Rows) (err error) {
			swept.Sessions, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		queueReleases(b, sweep, &swept.Released)
		b.Queue(loseRuns, jobs.MaxRecoveries, jobs.NotRecovered, sweep).Query(func(rows pgx.Rows) (err error) {
			swept.Lost, err = pgx.CollectRows(rows, lostRun)
			return err
		})
		b.Queue(endSwept, sweep)
		b.Queue(cancelLeft)
		b.Queue(endLeft, jobs.Away, jobs.JobGoneDetail)
		b.Queue(stuckClaims, sweep).Query(func(rows pgx.Rows) (err error) {
			left.stuck, err = pgx.CollectRows(rows, pgx.RowTo[jobs.Token])
			return err
		})
		b.Queue(unsettled).Query(func(rows pgx.Rows) (err error) {
			left.unsettled, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			return err
		})
		b.Queue(forgetSessions)
		b.Queue(forgetFences)
		b.Queue(forgetCancels)
	})
	if err != nil {
		return jobs.Swept{}, leftover{}, err
	}
	return swept, left, nil
}

func lostRun(row pgx.CollectableRow) (jobs.LostRun, error) {
	r := jobs.LostRun{Record: jobs.Record{State: jobs.Lost, Reason: jobs.ReasonSessionLost}}
	var held []byte
	err := row.Scan(&r.ID, &r.Job, &r.Due, &r.Key, &r.Recovery, &r.Attempt, &r.Replica, &r.Token, &r.CreatedAt, &held)
	if err != nil {
		return r, err
	}
	r.Due, r.CreatedAt = r.Due.UTC(), r.CreatedAt.UTC()
	r.Held, err = parseRequests(held)
	return r, err
}

// endHolders ends the backends that hold a dead session's claim in an open
// transaction. PostgreSQL names them exactly once somebody waits for the row;
// an application name would be cut at 63 bytes and could be anybody's. Who
// waits tells its backend and waits in one transaction: a pooler may give each
// transaction another backend.
func (s *Store) endHolders(ctx context.Context, token jobs.Token) (int, error) {
	waiter, err := s.pool.Acquire(ctx)
	if err != nil {
		return 0, wrap("sweep of a held claim", err)
	}
	defer waiter.Release()
	tx, err := waiter.Begin(ctx)
	if err != nil {
		return 0, wrap("sweep of a held claim", err)
	}
	defer rollback(ctx, waiter, tx)
	var pid int
	if err := tx.QueryRow(ctx, backendID).Scan(&pid); err != nil {
		return 0, wrap("sweep of a held claim", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- s.waitForClaim(ctx, tx, token) }()
	return s.endBlockers(ctx, pid, waited)
}

// endBlockers ends the backends that keep the backend pid waiting, until what
// waits there says that it has waited. It returns how many it has ended.
func (s *Store) endBlockers(ctx context.Context, pid int, waited <-chan error) (int, error) {
	ended := map[int32]bool{}
	for {
		pids, err := s.terminate(ctx, pid)
		if err != nil {
			return len(ended), errors.Join(wrap("end of a claim's holder", err), <-waited)
		}
		for _, pid := range pids {
			ended[pid] = true
		}
		select {
		case err := <-waited: // released, by itself or so, or not in time
			return len(ended), err
		case <-time.After(10 * time.Millisecond): // until the waiter is seen to wait
		}
	}
}

func (s *Store) terminate(ctx context.Context, pid int) ([]int32, error) {
	rows, err := s.views.Query(ctx, endLockers, pid)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int32])
}

// waitForClaim locks the claim and, in the same round trip, ends the
// transaction that has it then; a second is enough to be seen waiting.
func (s *Store) waitForClaim(ctx context.Context, tx pgx.Tx, token jobs.Token) error {
	b := &pgx.Batch{}
	b.Queue("SELECT set_config('lock_timeout', $1, true)", s.lockTimeout)
	b.Queue(lockClaim, token)
	b.Queue("ROLLBACK")
	err := wrap("wait for a held claim", tx.SendBatch(ctx, b).Close())
	if errors.Is(err, jobs.ErrRowHeld) {
		return nil // still held: the next sweep tries again
	}
	return err
}
