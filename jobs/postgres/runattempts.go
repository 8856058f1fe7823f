package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// addRunAttempts comes after finishRuns, which has added the end of the attempt to retry_waits.
	// If the reply was lost and the finish is repeated, the run still waits with the same token,
	// and its row exists. The output moves from outputs, where it may be while the run is watched.
	addRunAttempts = `
WITH ended AS (
    SELECT r.id, r.attempt - 1 AS attempt, e.state, e.reason, e.detail, e.error, r.replica, r.token,
        coalesce(r.retry_waits[cardinality(r.retry_waits) - 1], r.started_at) AS started_at,
        r.retry_waits[cardinality(r.retry_waits)] AS finished_at, e.output, r.waited
    FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[],
        $7::text[]) AS e (token, run, state, reason, detail, error, output)
    CROSS JOIN LATERAL (SELECT * FROM holdfast.runs r
        WHERE r.id = e.run AND r.token = e.token AND r.state = 'waiting' OFFSET 0) r
), forgotten AS (
    DELETE FROM holdfast.run_attempts a USING ended e
    WHERE a.run = ANY($2) AND a.run = e.id AND a.attempt <= e.attempt - $8::int
), moved AS (
    UPDATE holdfast.outputs o SET output = '' FROM ended e
    WHERE o.run = ANY($2) AND o.run = e.id AND o.output <> ''
)
INSERT INTO holdfast.run_attempts (run, attempt, state, reason, detail, error, replica, token,
    started_at, finished_at, output, waited)
SELECT * FROM ended ON CONFLICT (run, attempt) DO NOTHING`

	runAttemptColumns = `
SELECT attempt, state, reason, detail, error, replica, token, started_at, finished_at, waited`

	listRunAttempts = runAttemptColumns + `, '' FROM holdfast.run_attempts WHERE run = $1
    ORDER BY attempt`

	oneRunAttempt = runAttemptColumns + `, output FROM holdfast.run_attempts
    WHERE run = $1 AND attempt = $2`
)

// queueRunAttempts adds a statement to a batch that has finished attempts. The statement stores
// each attempt that another attempt follows. Most batches have none, and then it adds no statement.
func queueRunAttempts(b *pgx.Batch, requests []storage.FinishRequest) {
	var tokens []jobs.Token
	var runs []rawID
	var states, reasons, details, errors, outputs []string
	for _, r := range requests {
		if r.State != jobs.Waiting || r.GivenBack {
			continue
		}
		tokens, runs = append(tokens, r.Token), append(runs, r.Run)
		states, reasons = append(states, string(r.Attempt.EndState())),
			append(reasons, string(r.Attempt.Reason))
		details = append(details, output.PlainText(r.Attempt.Detail))
		errors = append(errors, output.PlainText(r.Error))
		outputs = append(outputs, output.PlainText(r.Output))
	}
	if len(runs) > 0 {
		b.Queue(addRunAttempts, tokens, runs, states, reasons, details, errors, outputs,
			storage.MaxRunAttempts)
	}
}

// RunAttempts implements storage.RunAttempts.
func (s *Store) RunAttempts(ctx context.Context, run uuid.UUID) ([]storage.RunAttempt, error) {
	rows, err := s.views.Query(ctx, listRunAttempts, run)
	if err != nil {
		return nil, wrap("attempts of run", err)
	}
	attempts, err := pgx.CollectRows(rows, scanRunAttempt)
	return attempts, wrap("attempts of run", err)
}

// RunAttempt implements storage.RunAttempts.
func (s *Store) RunAttempt(ctx context.Context, run uuid.UUID,
	attempt int) (storage.RunAttempt, error) {
	what := fmt.Sprintf("attempt %d of run %s", attempt, run)
	rows, err := s.views.Query(ctx, oneRunAttempt, run, attempt)
	if err != nil {
		return storage.RunAttempt{}, wrap(what, err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanRunAttempt)
	if err == pgx.ErrNoRows {
		return storage.RunAttempt{}, fmt.Errorf("%s: %w", what, storage.ErrNotFound)
	}
	return found, wrap(what, err)
}

func scanRunAttempt(row pgx.CollectableRow) (a storage.RunAttempt, err error) {
	var started, finished time.Time
	var waited []byte
	err = row.Scan(&a.Attempt, &a.State, &a.Reason, &a.Detail, &a.Error, &a.Replica, &a.Token,
		&started, &finished, &waited, &a.Output)
	a.StartedAt, a.FinishedAt = utc(&started), utc(&finished)
	if err == nil {
		a.Waited, err = parseWait(waited)
	}
	return a, err
}
