package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	openSession = `
INSERT INTO holdfast_sessions (id, replica, version, started_at, renewed_at, expires_at,
    lock_servers, config_hash) VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7)
ON CONFLICT (id) DO NOTHING`

	expireFormer = `UPDATE holdfast_sessions SET expires_at = min(expires_at, ?3)
		WHERE replica = ?2 AND id <> ?1 AND ended_at IS NULL`

	renewSession = `
UPDATE holdfast_sessions SET renewed_at = ?2, expires_at = ?3, clock_offset_ms = ?4, workers = ?5,
    busy = ?6, not_ready = ?7, databases = ?8, stopping = ?9
WHERE id = ?1 AND ended_at IS NULL`

	sessionClaims = `SELECT token, run FROM holdfast_claims WHERE session = ?1`

	// A session with claims only expires, so that a sweep takes its claims.
	endSession = `
UPDATE holdfast_sessions SET expires_at = min(expires_at, ?2),
    ended_at = CASE WHEN EXISTS (SELECT 1 FROM holdfast_claims WHERE session = ?1) THEN NULL
        ELSE ?2 END,
    stopped = NOT EXISTS (SELECT 1 FROM holdfast_claims WHERE session = ?1)
WHERE id = ?1 AND ended_at IS NULL`

	expireSessions = `UPDATE holdfast_sessions SET expires_at = min(expires_at, ?1)
		WHERE ended_at IS NULL`
)

// Open implements storage.Sessions.
func (s *Store) Open(ctx context.Context, session storage.Session) error {
	if err := s.exclusively("session opening"); err != nil {
		return err
	}
	// The session is added in memory first, because a sweep ends a stored session that is not in
	// memory.
	opened, added := s.sessions.open(session)
	err := s.write(ctx, "open session", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, openSession, session.ID, session.Replica, session.Version,
			micros(opened.started), micros(opened.expires), session.LockServers, session.Table)
		if err == nil && added && session.ReplaceEarlier {
			_, err = tx.ExecContext(ctx, expireFormer, session.ID, session.Replica,
				micros(opened.started))
		}
		return err
	})
	switch {
	case err != nil && added:
		s.sessions.forget(session.ID)
	case err == nil && added && session.ReplaceEarlier:
		s.sessions.succeed(session)
	}
	return err
}

// LiveSessions implements storage.Sessions.
func (s *Store) LiveSessions(_ context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	if err := s.exclusively("look at sessions"); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(sessions), func(id uuid.UUID) bool {
		_, live := s.sessions.get(id)
		return !live
	}), nil
}

// A heartbeat waits for the writer for at most persistWait, and for at most the TTL of its session
// divided by persistShare. The store's transactions are shorter. Those of handlers may take
// minutes.
const (
	persistShare = 15
	persistWait  = time.Second
)

// Heartbeat implements storage.Sessions. It renews the session at once, and then waits for the
// writer for a short time.
func (s *Store) Heartbeat(ctx context.Context, session uuid.UUID,
	v storage.ReplicaStatus) (storage.HeartbeatReply, error) {
	if err := s.exclusively("heartbeat"); err != nil {
		return storage.HeartbeatReply{}, err
	}
	sent := time.Now()
	renewed, ok := s.sessions.renew(session, v)
	if !ok {
		return storage.HeartbeatReply{}, wrap("heartbeat", storage.ErrSessionLost)
	}
	heartbeat := storage.HeartbeatReply{Now: fromMicros(micros(renewed.heartbeat)),
		SentAt: sent, AnsweredAt: time.Now(), Claims: map[jobs.Token]uuid.UUID{}}
	err := s.readers.QueryRowContext(ctx, changeCounters).
		Scan(&heartbeat.Definitions, &heartbeat.Generation)
	if err == nil {
		heartbeat.Open, err = s.replicas(ctx, openSessions)
	}
	if err == nil {
		err = s.readers.QueryRowContext(ctx, hasWaiting).Scan(&heartbeat.Adoptable)
		if err == sql.ErrNoRows {
			err = nil
		}
	}
	for _, r := range heartbeat.Open {
		heartbeat.Draining = heartbeat.Draining || r.Session == session && r.Draining
	}
	if err == nil {
		// The claims come last: a run that starts and ends after their query looks like a claim
		// without a run.
		err = each(ctx, s.readers, sessionClaims, []any{session}, func(rows *sql.Rows) error {
			var token jobs.Token
			var run uuid.UUID
			err := rows.Scan(&token, &run)
			heartbeat.Claims[token] = run
			return err
		})
	}
	if err != nil {
		return storage.HeartbeatReply{}, wrap("heartbeat", err)
	}
	s.persistBeat(ctx, renewed)
	return heartbeat, nil
}

// persistBeat writes the renewal for other processes, unless a long transaction has the writer. The
// session is renewed in either case.
func (s *Store) persistBeat(ctx context.Context, renewed liveSession) {
	limit := min(persistWait, renewed.TTL/persistShare)
	err := s.tryWrite(ctx, "heartbeat", limit, func(tx *sql.Tx) error {
		databases, err := storage.EncodeDatabases(renewed.replicaStatus.Databases)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, renewSession, renewed.ID, micros(renewed.heartbeat),
			micros(renewed.expires),
			renewed.replicaStatus.OffsetMilliseconds(), renewed.replicaStatus.Workers,
			renewed.replicaStatus.Busy, renewed.replicaStatus.NotReady, databases,
			renewed.replicaStatus.Stopping)
		return err
	})
	if err != nil {
		s.log.Debug().Err(err).Str("replica", renewed.Replica).
			Msg("heartbeat was not written to the file")
	}
}

// End implements storage.Sessions.
func (s *Store) End(ctx context.Context, session uuid.UUID) error {
	if err := s.exclusively("session end"); err != nil {
		return err
	}
	s.sessions.end(session)
	return s.write(ctx, "end session", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, endSession, session, micros(time.Now())); err != nil {
			return err
		}
		return s.settle(ctx, tx)
	})
}

// endFormerSessions marks the sessions of a former process as expired: it held the file lock, so
// none of them is live.
func (s *Store) endFormerSessions(ctx context.Context) error {
	return s.write(ctx, "end of former sessions", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, expireSessions, micros(time.Now()))
		return err
	})
}

// Now implements storage.History. It returns the clock of this machine.
func (s *Store) Now(context.Context) (time.Time, error) {
	return fromMicros(micros(time.Now())), nil
}
