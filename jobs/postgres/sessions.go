package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// A session that succeeds others of its name has them expire, but only as
	// it is written: a resent request must not end what was opened since.
	openSession = `
WITH opened AS (
    INSERT INTO holdfast.sessions (id, replica, version, ttl, lock_servers, config_hash, started_at,
        renewed_at, expires_at, locks)
    SELECT $1, $2, $3, $4, $7, $8, t, t, t + $4, $5 FROM clock_timestamp() t
    ON CONFLICT (id) DO NOTHING RETURNING id
)
UPDATE holdfast.sessions SET expires_at = clock_timestamp() WHERE $6 AND id IN (
    SELECT s.id FROM holdfast.sessions s
    WHERE s.replica = $2 AND s.locks = $5 AND s.ended_at IS NULL
        AND s.expires_at > clock_timestamp() AND EXISTS (SELECT FROM opened)
    ORDER BY s.id FOR NO KEY UPDATE)`

	// Conditional: without it a paused replica would revive a session whose
	// runs another has already taken over.
	renewSession = `
UPDATE holdfast.sessions SET renewed_at = t, expires_at = t + ttl, clock_offset_ms = $2,
    workers = $3, busy = $4, not_ready = $5
FROM clock_timestamp() t
WHERE id = $1 AND ended_at IS NULL AND expires_at > clock_timestamp()
RETURNING renewed_at, (SELECT definitions FROM holdfast.meta)`

	livingSessions = `
SELECT id FROM holdfast.sessions WHERE id = ANY($1) AND ended_at IS NULL
    AND expires_at > clock_timestamp()`

	// sessionClaims looks the older claims up one by one and walks the index for
	// the younger ones alone. What was deleted stays in an index for as long as a
	// transaction of the database may still see it: beside a long one the walk
	// from the first token would pass every claim that has ended since.
	sessionClaims = `
SELECT c.token, c.run FROM (SELECT unnest(claims_old) AS token FROM holdfast.sessions
    WHERE id = $1 OFFSET 0) o
CROSS JOIN LATERAL (SELECT c.token, c.run FROM holdfast.claims c WHERE c.token = o.token OFFSET 0) c
UNION ALL
SELECT c.token, c.run FROM (SELECT claims_floor FROM holdfast.sessions WHERE id = $1 OFFSET 0) s
CROSS JOIN LATERAL (SELECT c.token, c.run FROM holdfast.claims c
    WHERE c.session = $1 AND c.token + 0 > s.claims_floor OFFSET 0) c`

	// raiseClaims moves the token up from which sessionClaims walks the index, now
	// and then. A start or grant of a session that lives commits within the
	// session's TTL and half a minute of drawing its token, or never: where its
	// sender was paused for longer the session has expired, and a connection that
	// was lost is ended by its keepalives. So what was drawn as claims_next was
	// read, that long ago, is there by now or will never be.
	raiseClaims = `
UPDATE holdfast.sessions s SET claims_floor = s.claims_next, raised_at = clock_timestamp(),
    claims_next = coalesce(pg_sequence_last_value('holdfast.tokens'), 0),
    claims_old = ARRAY(
        SELECT c.token FROM (SELECT unnest(s.claims_old) AS token OFFSET 0) o
        CROSS JOIN LATERAL (SELECT c.token FROM holdfast.claims c
            WHERE c.token = o.token OFFSET 0) c
        UNION ALL
        SELECT c.token FROM holdfast.claims c
            WHERE c.session = s.id AND c.token + 0 > s.claims_floor
                AND c.token + 0 <= s.claims_next)
WHERE s.id = $1 AND s.raised_at < clock_timestamp() - s.ttl - interval '30 seconds'`

	// FOR UPDATE waits for starts under way, which hold it FOR KEY SHARE.
	lockSession = `SELECT FROM holdfast.sessions WHERE id = $1 AND ended_at IS NULL FOR UPDATE`

	// With claims left it only expires, so that a sweep takes them back.
	endSession = `
UPDATE holdfast.sessions SET
    expires_at = least(expires_at, clock_timestamp()),
    ended_at = CASE WHEN EXISTS (SELECT FROM holdfast.claims WHERE session = $1) THEN NULL
        ELSE clock_timestamp() END,
    stopped = NOT EXISTS (SELECT FROM holdfast.claims WHERE session = $1)
WHERE id = $1 AND ended_at IS NULL`

	// Nothing of an ended session can be under way: whoever is first may have
	// what it waited for.
	freeWaits = `UPDATE holdfast.waits SET session = NULL WHERE session = $1 AND owner IS NULL`
)

// Open registers a session.
func (s *Store) Open(ctx context.Context, session jobs.Session) error {
	_, err := s.pool.Exec(ctx, openSession, openColumns(session, false)...)
	return wrap("session opening", err)
}

// openColumns are a session that has locks, or one that has runs.
func openColumns(session jobs.Session, locks bool) []any {
	return []any{session.ID, session.Replica, session.Version, session.TTL, locks, session.Succeeds,
		session.LockServers, session.Table}
}

// Heartbeat renews a session and returns its claims.
func (s *Store) Heartbeat(ctx context.Context, session uuid.UUID,
	v jobs.ReplicaStatus) (jobs.Beat, error) {
	var beat jobs.Beat
	err := wrap("heartbeat", s.beat(ctx,
		func(b *pgx.Batch) { queueHeartbeat(b, session, v, &beat) }))
	return beat, err
}

// queueHeartbeat adds the renewal of a session, which fails with
// ErrSessionLost, and the look at its claims.
func queueHeartbeat(b *pgx.Batch, session uuid.UUID, v jobs.ReplicaStatus, beat *jobs.Beat) {
	// Nothing is left of a try that broke.
	*beat = jobs.Beat{Asked: time.Now(), Claims: map[jobs.Token]uuid.UUID{}}
	b.Queue(renewSession, session, v.OffsetMilliseconds(), v.Workers, v.Busy, v.NotReady).
		QueryRow(func(row pgx.Row) error {
			beat.Answered = time.Now()
			if err := row.Scan(&beat.Now, &beat.Definitions); err == pgx.ErrNoRows {
				return jobs.ErrSessionLost
			} else {
				return err
			}
		})
	b.Queue(raiseClaims, session)
	b.Queue(sessionClaims, session).Query(func(rows pgx.Rows) error {
		var token jobs.Token
		var run uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{&token, &run}, func() error {
			beat.Claims[token] = run
			return nil
		})
		return err
	})
}

// Living returns those of the sessions that are alive.
func (s *Store) Living(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	living, err := s.living(ctx, sessions)
	return living, wrap("look at sessions", err)
}

func (s *Store) living(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, livingSessions, sessions)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// End ends a session, and then settles what it carried. Where that can't be
// done now the session has ended all the same, and a sweep does it.
func (s *Store) End(ctx context.Context, session uuid.UUID) error {
	err := s.pipeline(ctx, "session end", func(b *pgx.Batch) {
		b.Queue(lockSession, session)
		b.Queue(endSession, session)
		b.Queue(freeWaits, session)
	})
	if err != nil {
		return err
	}
	if err := s.settle(ctx, session); err != nil {
		s.log.Debug().Err(err).Stringer("session", session).
			Msg("definitions of an ended session are left to a sweep")
	}
	return nil
}

// Now returns PostgreSQL's clock.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.views.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	return now.UTC(), wrap("clock", err)
}
