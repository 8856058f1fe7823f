package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// addRunAttempt comes after endRun, which has added the end of the attempt to retry_waits.
	addRunAttempt = `
INSERT INTO holdfast_run_attempts (run, attempt, state, reason, detail, error, replica, token,
    started_at, finished_at, output, waited)
SELECT id, attempt - 1, ?3, ?4, ?5, ?6, replica, token,
    coalesce(retry_waits ->> '$[#-2]', started_at), retry_waits ->> '$[#-1]', ?7,
    waited
FROM holdfast_runs WHERE id = ?1 AND token = ?2 AND state = 'waiting'
ON CONFLICT (run, attempt) DO NOTHING`

	forgetRunAttempts = `DELETE FROM holdfast_run_attempts WHERE run = ?1 AND attempt <= (
		SELECT r.attempt - 1 - ?2 FROM holdfast_runs r WHERE r.id = ?1)`

	// clearOutput is for an attempt whose output was saved while the run was watched.
	clearOutput = `UPDATE holdfast_outputs SET output = '' WHERE run = ?1`

	pruneRunAttempts = `DELETE FROM holdfast_run_attempts
		WHERE run IN (SELECT value FROM json_each(?1))`

	runAttemptColumns = `
SELECT attempt, state, reason, detail, error, replica, token, started_at, finished_at, waited`

	listRunAttempts = runAttemptColumns + `, '' FROM holdfast_run_attempts WHERE run = ?1
    ORDER BY attempt`

	oneRunAttempt = runAttemptColumns + `, output FROM holdfast_run_attempts
    WHERE run = ?1 AND attempt = ?2`
)

// addRunAttempts adds the attempts of these finishes, which others follow.
func addRunAttempts(ctx context.Context, tx *sql.Tx, retried []storage.FinishRequest) error {
	for _, r := range retried {
		if _, err := tx.ExecContext(ctx, addRunAttempt, r.Run, r.Token, r.Attempt.EndState(),
			r.Attempt.Reason, output.PlainText(r.Attempt.Detail), output.PlainText(r.Error),
			output.PlainText(r.Output)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, forgetRunAttempts, r.Run,
			storage.MaxRunAttempts); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, clearOutput, r.Run); err != nil {
			return err
		}
	}
	return nil
}

// RunAttempts implements storage.RunAttempts.
func (s *Store) RunAttempts(ctx context.Context, run uuid.UUID) ([]storage.RunAttempt, error) {
	var attempts []storage.RunAttempt
	err := each(ctx, s.readers, listRunAttempts, []any{run}, func(rows *sql.Rows) error {
		a, err := scanRunAttempt(rows.Scan)
		attempts = append(attempts, a)
		return err
	})
	return attempts, wrap("attempts of run "+run.String(), err)
}

// RunAttempt implements storage.RunAttempts.
func (s *Store) RunAttempt(ctx context.Context, run uuid.UUID,
	attempt int) (storage.RunAttempt, error) {
	a, err := scanRunAttempt(s.readers.QueryRowContext(ctx, oneRunAttempt, run, attempt).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = storage.ErrNotFound
	}
	return a, wrap(fmt.Sprintf("attempt %d of run %s", attempt, run), err)
}

func scanRunAttempt(scan func(...any) error) (a storage.RunAttempt, err error) {
	var token, started, finished int64
	var waited *string
	err = scan(&a.Attempt, &a.State, &a.Reason, &a.Detail, &a.Error, &a.Replica, &token, &started,
		&finished, &waited, &a.Output)
	from, until := fromMicros(started), fromMicros(finished)
	a.Token, a.StartedAt, a.FinishedAt = jobs.Token(token), &from, &until
	if err == nil {
		err = decodeColumn("wait", waited, &a.Waited)
	}
	return a, err
}
