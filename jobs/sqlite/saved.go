package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	saveState = `
INSERT INTO holdfast_saved (job, value, run, saved_at) SELECT job, ?2, id, ?3 FROM holdfast_runs
    WHERE id = ?1 AND token = ?4 AND state = 'running'
ON CONFLICT (job) DO UPDATE SET value = excluded.value, run = excluded.run,
    saved_at = excluded.saved_at`

	readSaved = `SELECT value FROM holdfast_saved WHERE job = ?1`
)

// Saved implements storage.JobProgress.
func (s *Store) Saved(ctx context.Context, job string) (json.RawMessage, error) {
	var saved string
	err := s.readers.QueryRowContext(ctx, readSaved, job).Scan(&saved)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap("read saved state", err)
	}
	return json.RawMessage(saved), nil
}

// SaveInTx saves v for the job's next run if tx commits, even if the run fails later. It is for
// work in parts, each in a transaction of InTx. It returns an error that wraps
// storage.ErrSuperseded if the run's claim is gone, or jobs.ErrTooLarge if v is too large.
func SaveInTx(ctx context.Context, tx *sql.Tx, run *jobs.Run, v any) error {
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

func (s *Store) saveInTx(ctx context.Context, tx *sql.Tx, run *jobs.Run,
	saved json.RawMessage) error {
	if err := fence(ctx, tx, run); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	_, err := tx.ExecContext(ctx, saveState, run.ID, string(saved), micros(time.Now()), run.Token)
	return wrap("save state", err)
}

// keep writes the output and the saved state of an attempt that ends. Its run is still running.
func keep(ctx context.Context, tx *sql.Tx, r storage.FinishRequest, now int64) error {
	if r.State == jobs.Waiting {
		r.Output = "" // addRunAttempts stores it
	}
	if r.Output != "" || r.Result != nil {
		if _, err := tx.ExecContext(ctx, saveOutput, r.Run, output.PlainText(r.Output),
			textOrNull(r.Result)); err != nil {
			return err
		}
	}
	if r.State != jobs.Succeeded || r.Saved == nil {
		return nil
	}
	_, err := tx.ExecContext(ctx, saveState, r.Run, string(r.Saved), now, r.Token)
	return err
}

func textOrNull(raw json.RawMessage) *string {
	if raw == nil {
		return nil
	}
	text := string(raw)
	return &text
}
