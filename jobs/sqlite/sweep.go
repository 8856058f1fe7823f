package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	unendedSessions = `SELECT id, replica FROM holdfast_sessions WHERE ended_at IS NULL
		ORDER BY replica, id`

	claimedRuns = `SELECT c.run FROM json_each(?1) q CROSS
		JOIN holdfast_claims c ON c.session = q.value`

	grantsOf = `SELECT resource, mode, slots FROM holdfast_grants WHERE token = ?1
		ORDER BY resource`

	endSessions = `
UPDATE holdfast_sessions SET ended_at = ?2, expires_at = min(expires_at, ?2)
    WHERE id IN (SELECT value FROM json_each(?1))`

	// No replica adopts them.
	leftOfRemoved = `
SELECT id FROM holdfast_runs WHERE state = 'waiting'
    AND (session IS NULL OR session NOT IN (SELECT value FROM json_each(?1)))
    AND job IN (SELECT j.name FROM holdfast_jobs j WHERE j.version < 0)`

	// The session that ended last remains, because it shows since when no replica was live.
	old = ` FROM holdfast_sessions WHERE ended_at < ?1
    AND id <> (SELECT id FROM holdfast_sessions WHERE ended_at IS NOT NULL
        ORDER BY renewed_at DESC, id LIMIT 1)`

	keepPast = `
INSERT INTO holdfast_past_sessions (id, replica, version, started_at, expires_at, ended_at, stopped,
    drains)
SELECT id, replica, version, started_at, expires_at, ended_at, stopped, drains` + old + `
    AND NOT removed`

	forgetSessions = `DELETE` + old + ` RETURNING id`

	forgetPast = `DELETE FROM holdfast_past_sessions WHERE ended_at < ?1`
)

// Sweep implements storage.Upkeep.
func (s *Store) Sweep(ctx context.Context) (storage.Swept, error) {
	if err := s.exclusively("sweep"); err != nil {
		return storage.Swept{}, err
	}
	var swept storage.Swept
	err := s.write(ctx, "sweep", func(tx *sql.Tx) error {
		now := time.Now()
		dead, err := s.deadSessions(ctx, tx, &swept)
		if err == nil && len(dead) > 0 {
			swept.Lost, err = loseRuns(ctx, tx, dead, now)
		}
		if err == nil && len(dead) > 0 {
			err = endDead(ctx, tx, dead, now)
		}
		if err == nil {
			err = s.settle(ctx, tx)
		}
		if err != nil {
			return err
		}
		if err := s.cancelLeft(ctx, tx, now); err != nil {
			return err
		}
		if err := s.endAbandoned(ctx, tx, now); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, forgetCancels); err != nil {
			return err
		}
		return s.forgetOld(ctx, tx, now)
	})
	if err != nil {
		return storage.Swept{}, err
	}
	swept.NextExpiry = s.sessions.nextExpiry()
	return swept, nil
}

func (s *Store) deadSessions(ctx context.Context, tx *sql.Tx,
	swept *storage.Swept) ([]uuid.UUID, error) {
	var dead []uuid.UUID
	err := each(ctx, tx, unendedSessions, nil, func(rows *sql.Rows) error {
		var id uuid.UUID
		var replica string
		if err := rows.Scan(&id, &replica); err != nil {
			return err
		}
		if _, live := s.sessions.get(id); !live {
			dead, swept.Sessions = append(dead, id), append(swept.Sessions, replica)
		}
		return nil
	})
	return dead, err
}

// loseRuns ends the running runs of the sessions and adds their successors.
func loseRuns(ctx context.Context, tx *sql.Tx, dead []uuid.UUID,
	now time.Time) ([]storage.LostRun, error) {
	runs, err := runsOf(ctx, tx, dead)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	at := micros(now)
	lost, ends := make([]storage.LostRun, len(runs)), make([]endRow, len(runs))
	for i, run := range runs {
		run.Lose(fromMicros(at))
		lost[i].Record = run.Record
		if lost[i].Held, err = heldBy(ctx, tx, lost[i].Token); err != nil {
			return nil, err
		}
		ends[i] = endRow{run: run.ID, token: lost[i].Token, state: run.State, reason: run.Reason,
			detail: run.Detail, finished: &at}
	}
	if err := recoverRuns(ctx, tx, ends, at); err != nil {
		return nil, err
	}
	return lost, endAttempts(ctx, tx, ends)
}

// heldBy returns the grants of the claim.
func heldBy(ctx context.Context, tx *sql.Tx, token jobs.Token) ([]locking.Request, error) {
	var held []locking.Request
	err := each(ctx, tx, grantsOf, []any{token}, func(rows *sql.Rows) error {
		var stored storedRequest
		if err := rows.Scan(&stored.Resource, &stored.Mode, &stored.Slots); err != nil {
			return err
		}
		request, err := stored.request()
		held = append(held, request)
		return err
	})
	return held, err
}

// runsOf returns the runs whose claims the sessions have, by firing.
func runsOf(ctx context.Context, tx *sql.Tx, sessions []uuid.UUID) ([]runRow, error) {
	encoded, err := encode(sessions)
	if err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	err = each(ctx, tx, claimedRuns, []any{encoded}, func(rows *sql.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	runs, err := loadRuns(ctx, tx, ids)
	slices.SortFunc(runs, func(a, b runRow) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), a.ScheduledAt.Compare(b.ScheduledAt))
	})
	return runs, err
}

func endDead(ctx context.Context, tx *sql.Tx, dead []uuid.UUID, now time.Time) error {
	encoded, err := encode(dead)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, endSessions, encoded, micros(now))
	return err
}

// cancelLeft ends the waiting runs of removed jobs that no live session has.
func (s *Store) cancelLeft(ctx context.Context, tx *sql.Tx, now time.Time) error {
	live, err := encode(s.sessions.liveIDs())
	if err != nil {
		return err
	}
	left, err := idsBy(ctx, tx, leftOfRemoved, live)
	if err != nil || len(left) == 0 {
		return err
	}
	return cancelRuns(ctx, tx, left, "its job was removed", micros(now))
}

func (s *Store) forgetOld(ctx context.Context, tx *sql.Tx, now time.Time) error {
	before := micros(now.Add(-storage.SessionsKept))
	if _, err := tx.ExecContext(ctx, keepPast, before); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, forgetPast, micros(now.Add(-storage.ReplicaSessionsKept)))
	if err != nil {
		return err
	}
	return each(ctx, tx, forgetSessions, []any{before},
		func(rows *sql.Rows) error {
			var id uuid.UUID
			err := rows.Scan(&id)
			s.sessions.forget(id)
			return err
		})
}

// ExpireDisconnected implements storage.Upkeep. It finds none, because only one process has
// sessions in the file.
func (s *Store) ExpireDisconnected(context.Context, uuid.UUID) (storage.Disconnected, error) {
	return storage.Disconnected{AfterHeartbeat: true}, nil
}
