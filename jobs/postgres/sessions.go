package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// A session that succeeds others of its name expires them, but only when its row is inserted: a
	// repeated request must not expire sessions that were opened since.
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

	// Without the condition a paused replica would revive a session whose runs another replica has
	// taken over.
	//
	// It records the backend of the connection if $6 is its process ID, and no backend otherwise.
	// $6 is the process ID that the client got when it connected. Poolers invent it, and their
	// backends outlive the client. If $6 is NULL, the session keeps its backend, provided that this
	// server has it: another call uses the connection, which may lead to a former primary.
	//
	// It also reports whether the replica searches for disconnected sessions: only the three oldest
	// do, so that the cost does not grow with the replicas.
	renewSession = `
UPDATE holdfast.sessions s SET renewed_at = t, expires_at = t + ttl, clock_offset_ms = $2,
    workers = $3, busy = $4, not_ready = $5, databases = $7, stopping = $8,
    backend = CASE WHEN pg_backend_pid() = $6::bigint THEN pg_backend_pid()
        WHEN $6 IS NULL AND backend = ANY(ARRAY(
            SELECT pg_stat_get_backend_pid(b) FROM pg_stat_get_backend_idset() b))
        THEN backend END
FROM clock_timestamp() t
WHERE id = $1 AND ended_at IS NULL AND expires_at > clock_timestamp()
RETURNING renewed_at, (SELECT definitions FROM holdfast.meta),
    (SELECT control_version FROM holdfast.meta), draining, backend IS NOT NULL, 3 > (
    SELECT count(*) FROM (SELECT FROM holdfast.sessions o WHERE NOT o.locks AND NOT o.stopping
        AND (o.started_at, o.id) < (s.started_at, s.id)
        AND o.ended_at IS NULL AND o.expires_at > clock_timestamp() AND o.backend IS NOT NULL
        LIMIT 3) older)`

	livingSessions = `
SELECT id FROM holdfast.sessions WHERE id = ANY($1) AND ended_at IS NULL
    AND expires_at > clock_timestamp()`

	// sessionClaims looks up the older claims one by one, and scans the index for the younger ones
	// only. A deleted row stays in its index while any transaction of the database may still see
	// it: beside a long transaction, a scan from the first token would pass every claim that has
	// ended since.
	sessionClaims = `
SELECT c.token, c.run FROM (SELECT unnest(claims_old) AS token FROM holdfast.sessions
    WHERE id = $1 OFFSET 0) o
CROSS JOIN LATERAL (SELECT c.token, c.run FROM holdfast.claims c WHERE c.token = o.token OFFSET 0) c
UNION ALL
SELECT c.token, c.run FROM (SELECT claims_floor FROM holdfast.sessions WHERE id = $1 OFFSET 0) s
CROSS JOIN LATERAL (SELECT c.token, c.run FROM holdfast.claims c
    WHERE c.session = $1 AND c.token + 0 > s.claims_floor OFFSET 0) c`

	// raiseClaims occasionally raises the token from which sessionClaims scans the index. A start
	// or grant of a live session commits within the session's TTL plus half a minute after it draws
	// its token, or never: if its sender was paused for longer, the session has expired, and
	// keepalives end a broken connection. So after that time every claim with a token up to
	// claims_next is visible or will never exist.
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

	// FOR UPDATE waits for concurrent starts, which lock the session FOR KEY SHARE.
	lockSession = `SELECT FROM holdfast.sessions WHERE id = $1 AND ended_at IS NULL FOR UPDATE`

	// A session with claims only expires, so that a sweep takes its claims.
	endSession = `
UPDATE holdfast.sessions SET
    expires_at = least(expires_at, clock_timestamp()),
    ended_at = CASE WHEN EXISTS (SELECT FROM holdfast.claims WHERE session = $1) THEN NULL
        ELSE clock_timestamp() END,
    stopped = NOT EXISTS (SELECT FROM holdfast.claims WHERE session = $1)
WHERE id = $1 AND ended_at IS NULL`

	// An ended session has no concurrent starts, so any replica may adopt its waiting runs.
	freeWaits = `UPDATE holdfast.waits SET session = NULL WHERE session = $1 AND owner IS NULL`
)

// Open implements storage.Sessions. If the database was restored or promoted since the last session
// was opened, Open first raises the fencing tokens. It cannot detect the restore of a snapshot or
// of copied rows: see Store.RaiseTokens.
func (s *Store) Open(ctx context.Context, session storage.Session) error {
	err := s.raiseAfterRestore(ctx, session.Replica)
	if err == nil {
		_, err = s.pool.Exec(ctx, openSession, openColumns(session, false)...)
	}
	return wrap("open session", err)
}

// openColumns returns the columns of a session that has locks, or of one that has runs.
func openColumns(session storage.Session, locks bool) []any {
	return []any{session.ID, session.Replica, session.Version, session.TTL, locks,
		session.ReplaceEarlier, session.LockServers, session.Table}
}

// Heartbeat implements storage.Sessions.
func (s *Store) Heartbeat(ctx context.Context, session uuid.UUID,
	v storage.ReplicaStatus) (storage.HeartbeatReply, error) {
	var heartbeat storage.HeartbeatReply
	databases, err := storage.EncodeDatabases(v.Databases)
	if err == nil {
		err = s.heartbeat(ctx, session, func(b *pgx.Batch, own *sessionBackend, pid *int64) {
			queueRenewal(b, own, pid, session, v, databases, &heartbeat)
			b.Queue(openSessions).Query(func(rows pgx.Rows) (err error) {
				heartbeat.Open, err = pgx.CollectRows(rows, scanReplica)
				return err
			})
			b.Queue(hasAdoptable, session).QueryRow(func(row pgx.Row) error {
				return row.Scan(&heartbeat.Adoptable)
			})
			queueClaims(b, session, &heartbeat)
		})
	}
	return heartbeat, wrap("heartbeat", err)
}

// queueRenewal adds the renewal of a session, which fails with ErrSessionLost. The text databases
// is that of storage.EncodeDatabases.
func queueRenewal(b *pgx.Batch, own *sessionBackend, pid *int64, session uuid.UUID,
	v storage.ReplicaStatus, databases string, heartbeat *storage.HeartbeatReply) {
	// Discard the result of a try that broke.
	*heartbeat = storage.HeartbeatReply{SentAt: time.Now(), Claims: map[jobs.Token]uuid.UUID{}}
	b.Queue(renewSession, session, v.OffsetMilliseconds(), v.Workers, v.Busy, v.NotReady, pid,
		databases, v.Stopping).
		QueryRow(func(row pgx.Row) error {
			heartbeat.AnsweredAt = time.Now()
			var recorded, searches bool
			err := row.Scan(&heartbeat.Now, &heartbeat.Definitions, &heartbeat.Generation,
				&heartbeat.Draining, &recorded, &searches)
			if err == pgx.ErrNoRows {
				return storage.ErrSessionLost
			}
			if err == nil && own != nil {
				own.shown(recorded, heartbeat.Now)
				own.searches = searches
			}
			return err
		})
}

// queueClaims adds the query of a session's claims. It comes after other queries of a heartbeat: a
// run that starts and ends between this query and the reply looks like a claim without a run.
func queueClaims(b *pgx.Batch, session uuid.UUID, heartbeat *storage.HeartbeatReply) {
	b.Queue(raiseClaims, session)
	b.Queue(sessionClaims, session).Query(func(rows pgx.Rows) error {
		var token jobs.Token
		var run uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{&token, &run}, func() error {
			heartbeat.Claims[token] = run
			return nil
		})
		return err
	})
}

// LiveSessions implements storage.Sessions.
func (s *Store) LiveSessions(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	liveSessions, err := s.liveSessions(ctx, sessions)
	return liveSessions, wrap("check sessions", err)
}

func (s *Store) liveSessions(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, livingSessions, sessions)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// End implements storage.Sessions. If it cannot remove the definitions of the session, it returns
// nil. The next sweep then removes them.
func (s *Store) End(ctx context.Context, session uuid.UUID) error {
	err := s.pipeline(ctx, "end session", func(b *pgx.Batch) {
		b.Queue(lockSession, session)
		b.Queue(endSession, session)
		b.Queue(freeWaits, session)
	})
	if err != nil {
		return err
	}
	s.heartbeats.release(session)
	if err := s.settle(ctx, session); err != nil {
		s.log.Debug().Err(err).Stringer("session", session).
			Msg("definitions of an ended session are left to a sweep")
	}
	return nil
}

// Now implements storage.History.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.views.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	return now.UTC(), wrap("read clock", err)
}
