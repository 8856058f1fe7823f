package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	freeRuns = `
SELECT id FROM holdfast_runs
WHERE state = 'waiting' AND (session IS NULL OR session NOT IN (SELECT value FROM json_each(?2)))
    AND job IN (SELECT value FROM json_each(?1))
ORDER BY wait_since, id LIMIT ?3`

	takeRuns = `UPDATE holdfast_runs SET session = ?2, replica = ?3 WHERE id IN (SELECT value FROM json_each(?1))`

	jobExists = `SELECT 1 FROM holdfast_jobs WHERE name = ?1`

	runByKey = `SELECT id FROM holdfast_runs WHERE job = ?1 AND key = ?2 AND key <> '' ORDER BY recovery DESC LIMIT 1`

	runByToken = `SELECT run FROM holdfast_claims WHERE token = ?1`
)

// Adopt takes up waiting runs that no living session has. A dead session
// adopts none.
func (s *Store) Adopt(ctx context.Context, session uuid.UUID, names []string, limit int) ([]jobs.Record, error) {
	if err := s.exclusively("adoption"); err != nil {
		return nil, err
	}
	if limit <= 0 || len(names) == 0 {
		return nil, nil
	}
	var adopted []jobs.Record
	err := s.write(ctx, "adoption", func(tx *sql.Tx) error {
		mine, live := s.lives.get(session)
		if !live {
			return nil
		}
		ids, err := s.freeRuns(ctx, tx, names, limit)
		if err != nil || len(ids) == 0 {
			return err
		}
		encoded, err := encode(ids)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, takeRuns, encoded, session, mine.Replica); err != nil {
			return err
		}
		adopted, err = recordsOf(ctx, tx, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	return adopted, nil
}

func (s *Store) freeRuns(ctx context.Context, tx *sql.Tx, names []string, limit int) ([]uuid.UUID, error) {
	encodedNames, err := encode(names)
	if err != nil {
		return nil, err
	}
	living, err := encode(s.lives.living())
	if err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	err = each(ctx, tx, freeRuns, []any{encodedNames, living, limit}, func(rows *sql.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// recordsOf returns the runs without output, in the order of the ids.
func recordsOf(ctx context.Context, from queryer, ids []uuid.UUID) ([]jobs.Record, error) {
	runs, err := loadRuns(ctx, from, ids) // json_each keeps the order
	records := make([]jobs.Record, len(runs))
	for i := range runs {
		if err == nil {
			records[i], err = runs[i].record()
		}
	}
	return records, err
}

// Trigger adds a waiting run that any replica may adopt.
func (s *Store) Trigger(ctx context.Context, job, key string) (jobs.Record, error) {
	if key == "" {
		key = uuid.NewString()
	}
	var record jobs.Record
	err := s.write(ctx, "trigger", func(tx *sql.Tx) error {
		id, err := triggered(ctx, tx, job, key)
		if err != nil {
			return err
		}
		records, err := recordsOf(ctx, tx, []uuid.UUID{id})
		if err == nil {
			record = records[0]
		}
		return err
	})
	return record, err
}

// triggered returns the key's run, which it adds where there is none.
func triggered(ctx context.Context, tx *sql.Tx, job, key string) (id uuid.UUID, err error) {
	var one int
	if err := tx.QueryRowContext(ctx, jobExists, job).Scan(&one); errors.Is(err, sql.ErrNoRows) {
		return id, fmt.Errorf("job %s: %w", job, jobs.ErrNotFound)
	} else if err != nil {
		return id, err
	}
	err = tx.QueryRowContext(ctx, runByKey, job, key).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	now := time.Now()
	at := micros(now)
	run := newRun(uuid.New(), jobs.Firing{Job: job, Due: now, Key: key}, 1, at)
	run.Since, run.Reason, run.Detail = &at, jobs.ReasonTriggered, "triggered by hand"
	return run.ID, execRows(ctx, tx, addRun, []runRow{run})
}

// Revoke ends a claim by force; one that is gone already needs nothing. It
// waits for the job's transaction, if one is under way: the claim may then be
// gone by itself.
func (s *Store) Revoke(ctx context.Context, token jobs.Token, state jobs.State, reason jobs.Reason) error {
	return s.write(ctx, "revocation", func(tx *sql.Tx) error {
		var run uuid.UUID
		err := tx.QueryRowContext(ctx, runByToken, token).Scan(&run)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = finish(ctx, tx, []jobs.FinishRequest{{Run: run, Token: token, State: state, Reason: reason, Detail: jobs.RevokedDetail}})
		return err
	})
}
