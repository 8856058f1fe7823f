package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// ownRuns are read only, in case a start of one is under way: a start may
	// lock what one run needs in another order than an adoption.
	ownRuns = `WITH ` + pausedJobs + selectRuns + `
WHERE r.id = ANY(ARRAY(SELECT w.run FROM holdfast.waits w WHERE w.session = $1 AND w.run <> ALL($3)))
    AND r.job = ANY($2) AND r.state = 'waiting' AND EXISTS (` + sessionLives + ` AND NOT draining) AND ` + notHeldBack + `
ORDER BY r.created_at, r.id`

	// notHeldBack is whether a run that waits may start although its job may be
	// paused.
	notHeldBack = `(r.key <> '' OR r.attempt > 1 OR r.job NOT IN (SELECT job FROM paused))`

	// Sessions are joined and not looked up (LATERAL): once a row of waits is
	// locked its newest version is judged anew, and a look-up is not repeated.
	adoptRuns = `
WITH ` + pausedJobs + `, free AS (
    SELECT w.run FROM holdfast.waits w
    CROSS JOIN LATERAL (SELECT r.job, r.key, r.attempt FROM holdfast.runs r WHERE r.id = w.run OFFSET 0) r
    LEFT JOIN holdfast.sessions s ON s.id = w.session
    WHERE (w.session IS NULL OR s.ended_at IS NOT NULL) AND r.job = ANY($2) AND w.run <> ALL($3) AND ` + notHeldBack + `
    ORDER BY w.since, w.run LIMIT $4 FOR UPDATE OF w SKIP LOCKED
), taken AS (
    UPDATE holdfast.waits w SET session = me.id
    FROM free, holdfast.sessions me
    WHERE w.run = free.run AND me.id = $1 AND me.ended_at IS NULL AND me.expires_at > clock_timestamp() AND NOT me.draining
    RETURNING w.run, me.id AS session, me.replica
), withdrawn AS (
    DELETE FROM holdfast.wants w WHERE w.run = ANY(ARRAY(SELECT run FROM taken))
)
UPDATE holdfast.runs r SET session = taken.session, replica = taken.replica
FROM taken WHERE r.id = taken.run AND r.id = ANY(ARRAY(SELECT run FROM taken)) AND r.state = 'waiting'
RETURNING` + recordColumns + `, '', NULL::text`

	revokeClaim = `SELECT run FROM holdfast.claims WHERE token = $1 FOR UPDATE NOWAIT`
)

// Adopt takes up waiting runs that no living session has, or that this one
// has without knowing it.
func (s *Store) Adopt(ctx context.Context, session uuid.UUID, names []string, known []uuid.UUID, limit int) ([]jobs.Record, error) {
	cared := make([]rawID, len(known)) // never NULL, which nothing differs from
	for i, run := range known {
		cared[i] = run
	}
	var adopted []jobs.Record
	collect := func(rows pgx.Rows) error {
		records, err := pgx.CollectRows(rows, scanRecord)
		adopted = append(adopted, records...)
		return err
	}
	err := s.pipeline(ctx, "adoption", func(b *pgx.Batch) {
		b.Queue(holdSession, session)
		b.Queue(ownRuns, session, names, cared).Query(collect)
		b.Queue(adoptRuns, session, names, cared, limit).Query(collect)
	})
	if err != nil {
		return nil, err
	}
	return adopted, nil
}

// Revoke ends a claim by force. It does not wait for a transaction of the job
// that holds the claim: it then returns an error that wraps
// jobs.ErrUnavailable.
func (s *Store) Revoke(ctx context.Context, token jobs.Token, state jobs.State, reason jobs.Reason) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var run uuid.UUID
		if err := tx.QueryRow(ctx, revokeClaim, token).Scan(&run); err == pgx.ErrNoRows {
			return nil // gone already
		} else if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(beginPipeline, s.lockTimeout)
		queueFinish(b, []jobs.FinishRequest{{Run: run, Token: token, State: state, Reason: reason, Detail: jobs.RevokedDetail}}, make([]bool, 1))
		return tx.SendBatch(ctx, b).Close()
	})
	return wrap("revocation", err)
}
