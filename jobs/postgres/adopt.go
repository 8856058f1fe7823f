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
	ownRuns = selectRuns + `
WHERE r.id = ANY(ARRAY(SELECT w.run FROM holdfast.waits w WHERE w.session = $1 AND w.run <> ALL($3)))
    AND r.job = ANY($2) AND r.state = 'waiting' AND EXISTS (` + sessionLives + `)
ORDER BY r.created_at, r.id`

	// Sessions are joined and not looked up (LATERAL): once a row of waits is
	// locked its newest version is judged anew, and a look-up is not repeated.
	adoptRuns = `
WITH free AS (
    SELECT w.run FROM holdfast.waits w
    CROSS JOIN LATERAL (SELECT r.job FROM holdfast.runs r WHERE r.id = w.run OFFSET 0) r
    LEFT JOIN holdfast.sessions s ON s.id = w.session
    WHERE (w.session IS NULL OR s.ended_at IS NOT NULL) AND r.job = ANY($2) AND w.run <> ALL($3)
    ORDER BY w.since, w.run LIMIT $4 FOR UPDATE OF w SKIP LOCKED
), taken AS (
    UPDATE holdfast.waits w SET session = me.id
    FROM free, holdfast.sessions me
    WHERE w.run = free.run AND me.id = $1 AND me.ended_at IS NULL AND me.expires_at > clock_timestamp()
    RETURNING w.run, me.id AS session, me.replica
), withdrawn AS (
    DELETE FROM holdfast.wants w WHERE w.run = ANY(ARRAY(SELECT run FROM taken))
)
UPDATE holdfast.runs r SET session = taken.session, replica = taken.replica
FROM taken WHERE r.id = taken.run AND r.id = ANY(ARRAY(SELECT run FROM taken)) AND r.state = 'waiting'
RETURNING` + recordColumns + `, '', NULL::text`

	triggerRun = `
WITH new AS (
    INSERT INTO holdfast.runs (id, job, due, key, state, created_at, reason, detail)
    SELECT $1, name, t, $3, 'waiting', t, 'triggered', 'triggered by hand'
    FROM holdfast.jobs, date_trunc('microseconds', clock_timestamp()) t WHERE name = $2
    ON CONFLICT DO NOTHING RETURNING id, created_at
)
INSERT INTO holdfast.waits (run, since) SELECT id, created_at FROM new`

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

// Trigger adds a waiting run that any replica may adopt.
func (s *Store) Trigger(ctx context.Context, job, key string) (jobs.Record, error) {
	if key == "" {
		key = uuid.NewString()
	}
	if _, err := s.pool.Exec(ctx, triggerRun, uuid.New(), job, key); err != nil {
		return jobs.Record{}, wrap("trigger", err)
	}
	rows, err := s.pool.Query(ctx, selectRuns+` WHERE r.job = $1 AND r.key = $2 AND r.key <> '' ORDER BY r.recovery DESC LIMIT 1`, job, key)
	if err != nil {
		return jobs.Record{}, wrap("trigger", err)
	}
	return oneRecord("job "+job, rows)
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
