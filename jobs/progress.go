package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/attempt"
)

// ErrTooLarge says that a state or a result exceeds its limit. Stores also return it for a call
// whose requests together have too many bytes of text.
var ErrTooLarge = attempt.ErrTooLarge

// Saved decodes the last saved state of the job into the value that target points to. It reports
// whether there is a state. Each call reads from the store. A state that this run gave to Save is
// visible only to the next run.
func (r *Run) Saved(ctx context.Context, target any) (bool, error) {
	if r.attempt.Store == nil { // a Run of NewRun
		return false, nil
	}
	saved, err := r.attempt.Store.Saved(ctx, r.Job)
	if err != nil || saved == nil {
		return false, err
	}
	if err := json.Unmarshal(saved, target); err != nil {
		return false, fmt.Errorf("decode saved state of job %q: %w", r.Job, err)
	}
	return true, nil
}

// PreviousScheduledAt returns the latest earlier scheduled time whose run succeeded, in UTC; zero
// if there is none. So a job that processes the time since then misses nothing if runs in between
// failed or were skipped. Runs with trigger params do not count, because they did other work. Each
// call reads from the store.
func (r *Run) PreviousScheduledAt(ctx context.Context) (time.Time, error) {
	if r.attempt.Store == nil { // a Run of NewRun
		return time.Time{}, nil
	}
	return r.attempt.Store.PreviousSuccess(ctx, r.Job, r.ScheduledAt)
}

// Save sets the state for the job's next run: v, as JSON of at most 1 MiB. The transaction that
// records the run's success stores it. A run that ends otherwise, or that was superseded, stores
// nothing. A second call replaces the first. Above the limit, Save returns an error that wraps
// ErrTooLarge.
//
// A handler that works in parts can save its progress in the transaction of each part, with
// postgres.SaveInTx or sqlite.SaveInTx. That state stays if a later part fails.
func (r *Run) Save(v any) error {
	encoded, err := attempt.EncodeSaved(v)
	if err != nil {
		return err
	}
	r.attempt.Save(encoded)
	return nil
}

// SetResult sets the result of the run: v, as JSON of at most 64 KiB. It is stored even if the run
// fails. A superseded run stores nothing. A second call replaces the first. Above the limit,
// SetResult returns an error that wraps ErrTooLarge.
func (r *Run) SetResult(v any) error {
	encoded, err := attempt.EncodeResult(v)
	if err != nil {
		return err
	}
	r.attempt.SetResult(encoded)
	return nil
}

// Result returns the result of the last call of SetResult, or nil.
func (r *Run) Result() json.RawMessage { return r.attempt.Result() }
