package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// saveEnded comes after lockClaims: a claim that it finds exists until the runs have ended. Of
	// two runs of one job the value of the later one remains.
	saveEnded = `
INSERT INTO holdfast.saved (job, value, run, saved_at)
SELECT DISTINCT ON (r.job) r.job, e.value, r.id, clock_timestamp()
FROM unnest($1::bigint[], $2::uuid[], $3::text[]) AS e (token, run, value)
CROSS JOIN LATERAL (SELECT c.run FROM holdfast.claims c
    WHERE c.token = e.token AND (c.run = e.run) IS TRUE OFFSET 0) c
CROSS JOIN LATERAL (SELECT r.id, r.job FROM holdfast.runs r
    WHERE r.id = c.run AND r.state = 'running' OFFSET 0) r
ORDER BY r.job, e.token DESC
ON CONFLICT (job) DO UPDATE SET value = excluded.value, run = excluded.run,
    saved_at = excluded.saved_at`

	// saveOwn is saveEnded for one run, in its own transaction.
	saveOwn = `
INSERT INTO holdfast.saved (job, value, run, saved_at)
SELECT r.job, $3::text, r.id, clock_timestamp() FROM holdfast.runs r
WHERE r.id = $2 AND r.state = 'running' AND EXISTS (SELECT FROM holdfast.claims c
    WHERE c.token = $1 AND c.run = $2)
ON CONFLICT (job) DO UPDATE SET value = excluded.value, run = excluded.run,
    saved_at = excluded.saved_at`

	readSaved = `SELECT value FROM holdfast.saved WHERE job = $1`
)

// Saved implements storage.JobProgress.
func (s *Store) Saved(ctx context.Context, job string) (json.RawMessage, error) {
	var saved string
	err := s.pool.QueryRow(ctx, readSaved, job).Scan(&saved)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap("read saved state", err)
	}
	return json.RawMessage(saved), nil
}

// SaveInTx saves v for the job's next run if tx commits, even if the run fails later. It is for
// work in parts, each in a transaction of InTx. SaveInTx returns storage.ErrSuperseded if the run's
// claim is gone, and an error that wraps jobs.ErrTooLarge if v is too large. Until tx has ended,
// other runs of the job wait when they save.
func SaveInTx(ctx context.Context, tx pgx.Tx, run *jobs.Run, v any) error {
	saved, err := attempt.EncodeSaved(v)
	if err != nil {
		return err
	}
	s, err := storeOf(run)
	if err != nil {
		return err
	}
	return s.saveInTx(ctx, tx, run, saved)
}

func (s *Store) saveInTx(ctx context.Context, tx pgx.Tx, run *jobs.Run,
	saved json.RawMessage) error {
	tag, err := tx.Exec(ctx, s.schema.in(saveOwn), run.Token, run.ID, string(saved))
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("token %d: %w", run.Token, storage.ErrSuperseded)
	}
	return wrap("save state", err)
}

// queueSaved adds the saved values of the runs that succeed to a batch. First it locks the claims
// of all requests. Most batches have no saved value, and then it adds no statement.
func queueSaved(b *pgx.Batch, requests []storage.FinishRequest) {
	var tokens []jobs.Token
	var runs []rawID
	var values []string
	for _, r := range requests {
		if r.State == jobs.Succeeded && r.Saved != nil {
			tokens, runs, values = append(tokens, r.Token), append(runs, r.Run),
				append(values, string(r.Saved))
		}
	}
	if len(runs) > 0 {
		b.Queue(lockClaims, sortedTokens(requests))
		b.Queue(saveEnded, tokens, runs, values)
	}
}

func textOrNull(raw json.RawMessage) *string {
	if raw == nil {
		return nil
	}
	text := string(raw)
	return &text
}
