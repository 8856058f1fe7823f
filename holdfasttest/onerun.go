package holdfasttest

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// oneRun is a storage.TestRuns with one run. It may be used concurrently.
type oneRun struct {
	savedBefore json.RawMessage // by the job's last run
	previous    time.Time       // scheduled time of the last success
	keepsFor    *int            // commits after which the claim is lost; nil: never

	mu      sync.Mutex
	commits int
	saved   json.RawMessage // by a fenced transaction
	lose    func()          // ends the context of the handler
}

// begin is called before the handler. Lose ends its context.
func (r *oneRun) begin(lose func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lose = lose; r.lost() {
		lose()
	}
}

// lost reports whether the run has lost its claim.
func (r *oneRun) lost() bool { return r.keepsFor != nil && r.commits >= *r.keepsFor }

// Saved implements storage.JobProgress.
func (r *oneRun) Saved(context.Context, string) (json.RawMessage, error) {
	return r.savedBefore, nil
}

// PreviousSuccess implements storage.JobProgress.
func (r *oneRun) PreviousSuccess(context.Context, string, time.Time) (time.Time, error) {
	return r.previous, nil
}

// CheckClaim implements storage.TestRuns.
func (r *oneRun) CheckClaim(*jobs.Run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost() {
		return storage.ErrSuperseded
	}
	return nil
}

// Committed implements storage.TestRuns.
func (r *oneRun) Committed(_ *jobs.Run, saved json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if saved != nil {
		r.saved = saved
	}
	if r.commits++; r.lost() {
		r.lose()
	}
}

// CommittedBefore implements storage.TestRuns.
func (r *oneRun) CommittedBefore(*jobs.Run) (bool, error) { return false, nil }

// Complete implements storage.TestRuns.
func (r *oneRun) Complete(_ context.Context, run *jobs.Run) error {
	run.Internal(attempt.NewKey()).Complete(string(jobs.Succeeded))
	return nil
}

// written returns how many fenced transactions have committed, and the state that they saved.
func (r *oneRun) written() (commits int, saved json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits, r.saved
}
