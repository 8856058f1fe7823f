package holdfasttest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// storedRuns are the storage.TestRuns of a store in memory.
type storedRuns struct{ *simstore.Store }

// CheckClaim implements storage.TestRuns.
func (s storedRuns) CheckClaim(run *jobs.Run) error {
	if !s.Stands(run.Token) {
		return storage.ErrSuperseded
	}
	return nil
}

// Committed implements storage.TestRuns.
func (s storedRuns) Committed(run *jobs.Run, saved json.RawMessage) {
	if saved != nil {
		s.Save(run.Job, saved)
	}
}

// CommittedBefore implements storage.TestRuns.
func (s storedRuns) CommittedBefore(*jobs.Run) (bool, error) { return false, nil }

// Complete implements storage.TestRuns. No other goroutine of the bubble takes the claim between
// the commit and this call, because the clock stands still from one to the other.
func (s storedRuns) Complete(ctx context.Context, run *jobs.Run) error {
	done, err := s.Finish(ctx, []storage.FinishRequest{{Run: run.ID, Token: run.Token,
		State: jobs.Succeeded, Output: run.OutputText(), Result: run.Result(),
		Saved: run.Internal(attempt.NewKey()).Saved()}})
	if err != nil {
		return err
	}
	if !done[0] {
		return fmt.Errorf("finish run in its own transaction: %w", storage.ErrSuperseded)
	}
	run.Internal(attempt.NewKey()).Complete(string(jobs.Succeeded))
	return nil
}
