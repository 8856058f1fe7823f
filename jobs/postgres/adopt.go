package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// Sessions are joined and not looked up (LATERAL): once a row of waits is
	// locked its newest version is judged anew, and a look-up is not repeated.
	adoptRuns = `
WITH free AS (
    SELECT w.run FROM holdfast.waits w
    CROSS JOIN LATERAL (SELECT r.job FROM holdfast.runs r WHERE r.id = w.run OFFSET 0) r
    LEFT JOIN holdfast.sessions s ON s.id = w.session
    WHERE (w.session IS NULL OR s.ended_at IS NOT NULL) AND r.job = ANY($2)
    ORDER BY w.since, w.run LIMIT $3 FOR UPDATE OF w SKIP LOCKED
), taken AS (
    UPDATE holdfast.waits w SET session = me.id
    FROM free, holdfast.sessions me
    WHERE w.run = free.run AND me.id = $1 AND me.ended_at IS NULL AND me.expires_at > clock_timestamp()
    RETURNING w.run, me.id AS session, me.replica, w.since
)
UPDATE holdfast.runs r SET session = taken.session, replica = taken.replica
FROM taken WHERE r.id = taken.run AND r.id = ANY(ARRAY(SELECT run FROM taken)) AND r.state = 'waiting'
RETURNING r.id, r.job, r.due, r.key, r.recovery, r.attempt, r.reason, r.detail, taken.since`

	triggerRun = `
WITH new AS (
    INSERT INTO holdfast.runs (id, job, due, key, attempt, state, created_at, reason, detail)
    SELECT $1, name, t, $3, 1, 'waiting', t, 'triggered', 'triggered by hand'
    FROM holdfast.jobs, date_trunc('microseconds', clock_timestamp()) t WHERE name = $2
    ON CONFLICT DO NOTHING RETURNING id, created_at
)
INSERT INTO holdfast.waits (run, since) SELECT id, created_at FROM new`

	revokeClaim = `SELECT run FROM holdfast.claims WHERE token = $1 FOR UPDATE NOWAIT`
)

// Adopt takes up waiting runs that no living session has.
func (s *Store) Adopt(ctx context.Context, session uuid.UUID, names []string, limit int) ([]jobs.Record, error) {
	var adopted []jobs.Record
	err := s.pipeline(ctx, "adoption", func(b *pgx.Batch) {
		b.Queue(holdSession, session)
		b.Queue(adoptRuns, session, names, limit).Query(func(rows pgx.Rows) (err error) {
			adopted, err = pgx.CollectRows(rows, adoptedRecord)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return adopted, nil
}

func adoptedRecord(row pgx.CollectableRow) (jobs.Record, error) {
	r := jobs.Record{State: jobs.Waiting}
	var since time.Time
	err := row.Scan(&r.ID, &r.Job, &r.Due, &r.Key, &r.Recovery, &r.Attempt, &r.Reason, &r.Detail, &since)
	r.Due, r.CreatedAt = r.Due.UTC(), since.UTC()
	return r, err
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
