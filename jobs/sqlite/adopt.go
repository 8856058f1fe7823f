package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	freeRuns = `
SELECT id, job, scheduled_at, key, recovery, attempt, wait_since, backfill, reason
    FROM holdfast_runs
WHERE state = 'waiting' AND (session IS NULL OR session NOT IN (SELECT value FROM json_each(?2))
        OR attempt <= 1 AND session IN (SELECT value FROM json_each(?5)))
    AND wait_since <= ?6 AND job IN (SELECT value FROM json_each(?1))
        AND id NOT IN (SELECT value FROM json_each(?3))
        AND ` + notHeldBack + `?4)))`

	// oldestRuns returns the scheduled times of the oldest waiting runs: see rules.Adopted.
	oldestRuns = `
SELECT job, min(scheduled_at) FROM holdfast_runs
WHERE state = 'waiting' AND key = '' AND recovery = 0 AND attempt <= 1 AND backfill IS NULL
    AND wait_since <= ?1 GROUP BY job`

	ownRuns = `
SELECT id FROM holdfast_runs
WHERE state = 'waiting' AND session = ?2 AND job IN (SELECT value FROM json_each(?1))
    AND id NOT IN (SELECT value FROM json_each(?3)) AND ` + notHeldBack + `?4)))
ORDER BY wait_since, id`

	hasWaiting = `SELECT true FROM holdfast_runs WHERE state = 'waiting' LIMIT 1`

	// notHeldBack is whether a waiting run may start although its job may be paused.
	notHeldBack = `(key <> '' AND backfill IS NULL OR attempt > 1
		OR job NOT IN (SELECT value FROM json_each(`

	drainingSessions = `SELECT id FROM holdfast_sessions WHERE draining`

	takeRuns = `UPDATE holdfast_runs SET session = ?2, replica = ?3
		WHERE id IN (SELECT value FROM json_each(?1))`

	runByToken = `SELECT run FROM holdfast_claims WHERE token = ?1`
)

// Adopt implements storage.Upkeep. A dead or stopping session adopts none.
func (s *Store) Adopt(ctx context.Context, session uuid.UUID,
	a storage.Adoption) ([]storage.Record, error) {
	if err := s.exclusively("adoption"); err != nil {
		return nil, err
	}
	var adopted []storage.Record
	err := s.write(ctx, "adopt runs", func(tx *sql.Tx) error {
		mine, live := s.sessions.get(session)
		if !live || mine.replicaStatus.Stopping {
			return nil
		}
		own, free, err := s.adoptable(ctx, tx, session, a)
		if err != nil {
			return err
		}
		if err := take(ctx, tx, free, mine); err != nil {
			return err
		}
		adopted, err = recordsOf(ctx, tx, append(own, free...))
		return err
	})
	if err != nil {
		return nil, err
	}
	return adopted, nil
}

// adoptable returns the waiting runs that the session has already, and those that no session has.
func (s *Store) adoptable(ctx context.Context, tx *sql.Tx, session uuid.UUID,
	a storage.Adoption) (own, free []uuid.UUID, err error) {
	names := make([]string, len(a.Jobs))
	for i, j := range a.Jobs {
		names[i] = j.Name
	}
	held, err := loadHeldBack(ctx, tx, session, names)
	if err != nil || held.draining {
		return nil, nil, err
	}
	draining, err := idsBy(ctx, tx, drainingSessions)
	if err != nil {
		return nil, nil, err
	}
	var encoded [5]string
	for i, list := range []any{names, append([]uuid.UUID{}, a.Known...), s.sessions.keeperIDs(),
		held.among(names), append([]uuid.UUID{}, draining...)} {
		if encoded[i], err = encode(list); err != nil {
			return nil, nil, err
		}
	}
	if own, err = idsBy(ctx, tx, ownRuns, encoded[0], session, encoded[1], encoded[3]); err != nil {
		return nil, nil, err
	}
	var runs []storage.Record
	now := time.Now()
	err = each(ctx, tx, freeRuns,
		[]any{encoded[0], encoded[2], encoded[1], encoded[3], encoded[4], micros(now)},
		func(rows *sql.Rows) error {
			var r storage.Record
			var scheduledAt, since int64
			var backfill uuid.NullUUID
			err := rows.Scan(&r.ID, &r.Job, &scheduledAt, &r.Key, &r.Recovery, &r.Attempt, &since,
				&backfill, &r.Reason)
			r.ScheduledAt, r.WaitSince = fromMicros(scheduledAt), fromMicros(since)
			r.Backfill = backfill.UUID
			runs = append(runs, r)
			return err
		})
	if err != nil || len(runs) == 0 {
		return own, nil, err
	}
	oldest := map[string]time.Time{}
	err = each(ctx, tx, oldestRuns, []any{micros(now)}, func(rows *sql.Rows) error {
		var job string
		var scheduledAt int64
		err := rows.Scan(&job, &scheduledAt)
		oldest[job] = fromMicros(scheduledAt)
		return err
	})
	return own, rules.Adopted(runs, oldest, a, now), err
}

// take gives the runs to the session. Until their next start no run waits behind them, except later
// runs of the job behind a triggered run.
func take(ctx context.Context, tx *sql.Tx, runs []uuid.UUID, session liveSession) error {
	if len(runs) == 0 {
		return nil
	}
	encoded, err := encode(runs)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, takeRuns, encoded, session.ID, session.Replica); err != nil {
		return err
	}
	return execBatch(ctx, tx, withdrawWants, runs)
}

// idsBy returns the ids that the query finds.
func idsBy(ctx context.Context, from queryer, query string, args ...any) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := each(ctx, from, query, args, func(rows *sql.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// recordsOf returns the runs without output, in the order of the ids.
func recordsOf(ctx context.Context, from queryer, ids []uuid.UUID) ([]storage.Record, error) {
	runs, err := loadRuns(ctx, from, ids) // json_each keeps the order
	records := make([]storage.Record, len(runs))
	for i := range runs {
		records[i] = runs[i].Record
	}
	return records, err
}

// Revoke implements storage.Upkeep. It waits for the open transaction of the job, after which the
// claim may be gone.
func (s *Store) Revoke(ctx context.Context, token jobs.Token, state jobs.State,
	reason jobs.Reason) error {
	return s.write(ctx, "revocation", func(tx *sql.Tx) error {
		var run uuid.UUID
		err := tx.QueryRowContext(ctx, runByToken, token).Scan(&run)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = finish(ctx, tx, []storage.FinishRequest{
			{Run: run, Token: token, State: state, Reason: reason, Detail: storage.RevokedDetail}})
		return err
	})
}
