package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// How much a run may keep, in bytes of JSON.
const (
	MaxSaved  = 1 << 20  // of state, for the job's next run
	MaxResult = 64 << 10 // of a result, with the run
)

// ErrTooLarge says that a state or a result has more bytes than are kept.
var ErrTooLarge = errors.New("too large")

// Memory is what jobs keep from run to run.
type Memory interface {
	// Saved returns what the job's runs have saved last, or nil. It does not
	// ask whether the job exists.
	Saved(ctx context.Context, job string) (json.RawMessage, error)
}

// Saved decodes what the job's runs saved last into the value that into points
// to, and reports whether there was anything. It asks the store each time, and
// costs those nothing who don't call it. What this run itself gave to Save
// shows only to the next.
func (r *Run) Saved(ctx context.Context, into any) (bool, error) {
	if r.attempt.Store == nil { // a test of a handler
		return false, nil
	}
	saved, err := r.attempt.Store.Saved(ctx, r.Job)
	if err != nil || saved == nil {
		return false, err
	}
	if err := json.Unmarshal(saved, into); err != nil {
		return false, fmt.Errorf("saved state of %s: %w", r.Job, err)
	}
	return true, nil
}

// Save has v, as JSON of at most 1 MiB, found by the job's next run. It is
// stored in one transaction with the run's success; a run that ends otherwise,
// or that was superseded, stores nothing. A second call takes the first one's
// place. It returns an error that wraps ErrTooLarge.
//
// Work that is done in parts saves how far it is with each part instead, by
// SaveInTx of its store: that is kept when a later part fails.
func (r *Run) Save(v any) error {
	encoded, err := EncodeSaved(v)
	if err != nil {
		return err
	}
	r.attempt.Save(encoded)
	return nil
}

// SetResult has v, as JSON of at most 64 KiB, kept with the run, however it
// ends. A second call takes the first one's place. It returns an error that
// wraps ErrTooLarge.
func (r *Run) SetResult(v any) error {
	encoded, err := encodeKept(v, MaxResult)
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	r.attempt.SetResult(encoded)
	return nil
}

// Result returns what SetResult was last given, or nil.
func (r *Run) Result() json.RawMessage { return r.attempt.Result() }

// EncodeSaved returns v as a store keeps it, for Save and SaveInTx.
func EncodeSaved(v any) (json.RawMessage, error) {
	encoded, err := encodeKept(v, MaxSaved)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return encoded, nil
}

// encodeKept returns v as JSON that every store takes.
func encodeKept(v any, most int) (json.RawMessage, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	encoded = bytes.ToValidUTF8(encoded, []byte("\uFFFD"))
	if len(encoded) > most {
		return nil, fmt.Errorf("%w: %d bytes of JSON, at most %d are kept", ErrTooLarge,
			len(encoded), most)
	}
	return encoded, nil
}
