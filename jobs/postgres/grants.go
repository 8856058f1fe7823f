package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// requireSession fails unless the session is live. As the last statement of a transaction it
	// prevents that a session which has expired meanwhile is granted anything.
	requireSession = `
SELECT 1 / count(*) FROM holdfast.sessions
    WHERE id = $1 AND ended_at IS NULL AND expires_at > clock_timestamp()`

	// holdLiving combines requireSession and holdSession. It also bounds each later statement:
	// PostgreSQL waits for the sharers of a row one after the other, each within the lock timeout.
	holdLiving = `SELECT 1 / count(*), set_config('statement_timeout', $2, true)
		FROM (` + holdSession + `) s`

	sessionPlaces = `SELECT run FROM holdfast.waits WHERE session = $1 AND owner IS NOT NULL`

	// A sweep ends a claim that an open transaction of its owner has locked. Rows are first found
	// by their index and then locked in order, as in other statements: in a single step PostgreSQL
	// may scan the whole index that has the order.
	endClaims = `
WITH gone AS (
    DELETE FROM holdfast.claims WHERE token = ANY(ARRAY(
        SELECT token FROM holdfast.claims
        WHERE token = ANY(ARRAY(SELECT c.token FROM holdfast.claims c
            WHERE c.session = $1 AND c.owner IS NOT NULL))
        ORDER BY token FOR UPDATE SKIP LOCKED))
    RETURNING token
)
DELETE FROM holdfast.grants WHERE token + 0 = ANY(ARRAY(SELECT token FROM gone))`

	endWaits = `
WITH gone AS (
    DELETE FROM holdfast.waits WHERE run = ANY(ARRAY(
        SELECT run FROM holdfast.waits
        WHERE run = ANY(ARRAY(SELECT w.run FROM holdfast.waits w
            WHERE w.session = $1 AND w.owner IS NOT NULL))
        ORDER BY run FOR UPDATE))
    RETURNING run
)
DELETE FROM holdfast.wants WHERE run = ANY(ARRAY(SELECT run FROM gone))`
)

// grants is a Store as locking.Grants.
type grants struct{ store *Store }

// Grants returns the store as the locking.Grants of a locking.Locker. The locks of the Locker and
// the runs of the cluster's jobs exclude each other. It may be used concurrently.
func (s *Store) Grants() locking.Grants { return grants{s} }

// pipeline is Store.pipeline with the errors of package locking.
func (g grants) pipeline(ctx context.Context, what string, queue func(b *pgx.Batch)) error {
	return wrapLocks(what, g.store.send(ctx, beginPipeline, queue))
}

// OpenSession registers a session. If the database was restored from a dump, it first raises the
// fencing tokens.
func (g grants) OpenSession(ctx context.Context, s locking.Session) error {
	if err := g.store.raiseAfterRestore(ctx, s.Replica); err != nil {
		return wrapLocks("open session", err)
	}
	return g.pipeline(ctx, "open session", func(b *pgx.Batch) {
		b.Queue(openSession, openColumns(storage.Session{ID: s.ID, Replica: s.Replica,
			Version: s.Version, TTL: s.TTL, ReplaceEarlier: s.ReplaceEarlier}, true)...)
		b.Queue(requireSession, s.ID)
	})
}

// Heartbeat renews a session, and returns its claims and its waits.
func (g grants) Heartbeat(ctx context.Context, session uuid.UUID) (locking.HeartbeatReply, error) {
	var heartbeat storage.HeartbeatReply
	var waiting []uuid.UUID
	err := wrapLocks("heartbeat", g.store.heartbeat(ctx, session, func(b *pgx.Batch,
		own *sessionBackend, pid *int64) {
		queueRenewal(b, own, pid, session, storage.ReplicaStatus{}, "[]", &heartbeat)
		queueClaims(b, session, &heartbeat)
		b.Queue(sessionPlaces, session).Query(func(rows pgx.Rows) (err error) {
			waiting, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			return err
		})
	}))
	return locking.HeartbeatReply{Now: heartbeat.Now, Claims: heartbeat.Claims,
		Waiting: waiting}, err
}

// LiveSessions returns the live sessions among the given ones.
func (g grants) LiveSessions(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	liveSessions, err := g.store.liveSessions(ctx, sessions)
	return liveSessions, wrapLocks("check sessions", err)
}

// EndSession ends a session with its claims and its waits.
func (g grants) EndSession(ctx context.Context, session uuid.UUID) error {
	err := g.pipeline(ctx, "end session", func(b *pgx.Batch) {
		b.Queue(lockSession, session)
		b.Queue(endWaits, session)
		b.Queue(endClaims, session)
		b.Queue(endSession, session)
	})
	if err == nil {
		g.store.heartbeats.release(session)
	}
	return err
}

// checkBatch refuses a call that is too large for one transaction.
func checkBatch(n int) error {
	if n > locking.MaxGrants {
		return fmt.Errorf("at most %d locks in one call, found %d", locking.MaxGrants, n)
	}
	return nil
}
