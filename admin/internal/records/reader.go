package records

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Reader queries runs. All times are in UTC, and resources have display names.
type Reader struct {
	Store storage.History
	// WaitEnd returns when a waiting run stops waiting for its blocker, and false if that is not
	// known. It may be nil.
	WaitEnd func(run storage.Record) (storage.WaitEnd, bool)
}

// plain is Plain with the end of the wait.
func (r Reader) plain(run storage.Record) storage.Record {
	run = Plain(run)
	if run.State != jobs.Waiting || r.WaitEnd == nil {
		return run
	}
	if end, known := r.WaitEnd(run); known {
		end.At = end.At.UTC()
		run.WaitEnd = &end
	}
	return run
}

// Run returns one run with its output.
func (r Reader) Run(ctx context.Context, id uuid.UUID) (storage.Record, error) {
	run, err := r.Store.Run(ctx, id)
	if err != nil {
		return storage.Record{}, fmt.Errorf("run %s: %w", id, err)
	}
	return r.plain(run), nil
}

// Attempts returns the attempts of a run without output, the oldest first, never nil.
func (r Reader) Attempts(ctx context.Context, run storage.Record) ([]storage.RunAttempt, error) {
	found, err := storage.AttemptsOf(ctx, r.Store, run)
	if err != nil {
		return nil, fmt.Errorf("attempts of run %s: %w", run.ID, err)
	}
	attempts := make([]storage.RunAttempt, 0, len(found))
	for _, a := range found {
		attempts = append(attempts, PlainAttempt(a))
	}
	return attempts, nil
}

// Attempt returns one attempt of a run with its output.
func (r Reader) Attempt(ctx context.Context, run storage.Record,
	n int) (storage.RunAttempt, error) {
	if last, started := run.LastAttempt(); started && last.Attempt == n {
		return PlainAttempt(last), nil
	}
	a, err := r.Store.RunAttempt(ctx, run.ID, n)
	if err != nil {
		return storage.RunAttempt{}, fmt.Errorf("attempt %d of run %s: %w", n, run.ID, err)
	}
	return PlainAttempt(a), nil
}

// Runs returns runs without output, newest first, never nil.
func (r Reader) Runs(ctx context.Context, filter storage.RunFilter) ([]storage.Record, error) {
	found, err := r.Store.Runs(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	runs := make([]storage.Record, 0, len(found))
	for _, run := range found {
		run.Params = nil // as in PlainAll
		runs = append(runs, r.plain(run))
	}
	return runs, nil
}

// Now returns the time of the store's clock.
func (r Reader) Now(ctx context.Context) (time.Time, error) {
	now, err := r.Store.Now(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("store's clock: %w", err)
	}
	return now.UTC(), nil
}

// Active returns the waiting and running runs of a job, oldest first.
func (r Reader) Active(ctx context.Context, job string) ([]storage.Record, error) {
	active, err := r.Runs(ctx, storage.RunFilter{Job: job,
		States: []jobs.State{jobs.Waiting, jobs.Running}, Limit: storage.MaxBatch})
	slices.SortFunc(active, OlderFirst)
	return active, err
}

// WaitingFor returns the runs whose blocker matches blocks, oldest first.
func (r Reader) WaitingFor(ctx context.Context,
	blocks func(jobs.Blocker) bool) ([]storage.Record, error) {
	waiting, err := r.Runs(ctx, storage.RunFilter{States: []jobs.State{jobs.Waiting},
		Later: new(false), Limit: storage.MaxBatch})
	if err != nil {
		return nil, err
	}
	waiting = slices.DeleteFunc(waiting, func(w storage.Record) bool {
		return w.BlockedBy == nil || !blocks(*w.BlockedBy)
	})
	slices.SortFunc(waiting, OlderFirst)
	return waiting, nil
}
