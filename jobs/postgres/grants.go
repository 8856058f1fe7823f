package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// requireSession fails unless the session lives. As the last statement of
	// a transaction it keeps what was decided for a session that has expired
	// meanwhile from taking effect.
	requireSession = `
SELECT 1 / count(*) FROM holdfast.sessions
    WHERE id = $1 AND ended_at IS NULL AND expires_at > clock_timestamp()`

	// holdLiving is requireSession and holdSession in one. It also bounds each
	// of the statements that follow: a row that many share in turn is waited
	// for sharer by sharer, each within the lock timeout.
	holdLiving = `SELECT 1 / count(*), set_config('statement_timeout', $2, true)
		FROM (` + holdSession + `) s`

	sessionPlaces = `SELECT run FROM holdfast.waits WHERE session = $1 AND owner IS NOT NULL`

	// A claim that an open transaction of its owner holds is left to a sweep.
	// Here and elsewhere rows are found first, by their index, and then locked
	// in order: asked for both at once, PostgreSQL may walk the index that has
	// the order, from end to end.
	endClaims = `
WITH gone AS (
    DELETE FROM holdfast.claims WHERE token = ANY(ARRAY(
        SELECT token FROM holdfast.claims
        WHERE token = ANY(ARRAY(SELECT c.token FROM holdfast.claims c
            WHERE c.session = $1 AND c.owner IS NOT NULL))
        ORDER BY token FOR UPDATE SKIP LOCKED))
    RETURNING token
)
DELETE FROM holdfast.grants WHERE token = ANY(ARRAY(SELECT token FROM gone))`

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

// Grants returns the stage 2 of a locking.Locker. Its locks and the runs of
// the cluster's jobs exclude each other. A program that schedules nothing needs
// no more of the Store than this. It may be used concurrently.
func (s *Store) Grants() locking.Grants { return grants{s} }

// pipeline is Store.pipeline with the errors of package locking.
func (g grants) pipeline(ctx context.Context, what string, queue func(b *pgx.Batch)) error {
	return wrapLocks(what, g.store.send(ctx, queue))
}

// OpenSession registers a session.
func (g grants) OpenSession(ctx context.Context, s locking.Session) error {
	return g.pipeline(ctx, "session opening", func(b *pgx.Batch) {
		b.Queue(openSession, openColumns(jobs.Session{ID: s.ID, Replica: s.Replica,
			Version: s.Version, TTL: s.TTL, Succeeds: s.Succeeds}, true)...)
		b.Queue(requireSession, s.ID)
	})
}

// Heartbeat renews a session, and returns its claims and its places among the
// waiting.
func (g grants) Heartbeat(ctx context.Context, session uuid.UUID) (locking.Beat, error) {
	var beat jobs.Beat
	var waiting []uuid.UUID
	err := wrapLocks("heartbeat", g.store.beat(ctx, func(b *pgx.Batch) {
		queueHeartbeat(b, session, jobs.ReplicaStatus{}, &beat)
		b.Queue(sessionPlaces, session).Query(func(rows pgx.Rows) (err error) {
			waiting, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			return err
		})
	}))
	return locking.Beat{Now: beat.Now, Claims: beat.Claims, Waiting: waiting}, err
}

// Living returns those of the sessions that are alive.
func (g grants) Living(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	living, err := g.store.living(ctx, sessions)
	return living, wrapLocks("look at sessions", err)
}

// EndSession ends a session with its claims and its places.
func (g grants) EndSession(ctx context.Context, session uuid.UUID) error {
	return g.pipeline(ctx, "session end", func(b *pgx.Batch) {
		b.Queue(lockSession, session)
		b.Queue(endWaits, session)
		b.Queue(endClaims, session)
		b.Queue(endSession, session)
	})
}

// checkBatch refuses a call that is larger than one transaction should be.
func checkBatch(n int) error {
	if n > locking.MaxGrants {
		return fmt.Errorf("at most %d locks in one call, found %d", locking.MaxGrants, n)
	}
	return nil
}
