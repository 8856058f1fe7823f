package storage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// MaxRunAttempts is how many attempts of a run a store keeps besides the last attempt: those just
// before it.
const MaxRunAttempts = 100

// RunAttempts reads the attempts of a run except the last one. Record.LastAttempt returns the last
// attempt.
type RunAttempts interface {
	// RunAttempts returns the attempts without output, the oldest first, at most MaxRunAttempts. It
	// returns none for an unknown run.
	RunAttempts(ctx context.Context, run uuid.UUID) ([]RunAttempt, error)
	// RunAttempt returns one attempt with its output, or ErrNotFound.
	RunAttempt(ctx context.Context, run uuid.UUID, attempt int) (RunAttempt, error)
}

// RunAttempt is one attempt of a run.
type RunAttempt struct {
	Attempt int `json:"attempt"` // from 1
	// State is how the attempt ended. If another attempt follows, it is failed or timed_out. The
	// last attempt has the state of the run.
	State   jobs.State  `json:"state"`
	Reason  jobs.Reason `json:"reason,omitempty"`
	Detail  string      `json:"detail,omitempty"` // the reason in words
	Error   string      `json:"error,omitempty"`
	Replica string      `json:"replica,omitempty"`
	Token   jobs.Token  `json:"token,omitempty"`
	// StartedAt is nil if the attempt has not started.
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	// Waited is how the attempt waited for its locks; absent without a recorded blocker.
	Waited *Wait  `json:"waited,omitempty"`
	Output string `json:"output,omitempty"` // only if one attempt is read
}

// Took returns the time from start to end. It returns false if the attempt has not started or not
// ended.
func (a RunAttempt) Took() (time.Duration, bool) {
	if a.StartedAt == nil || a.FinishedAt == nil {
		return 0, false
	}
	return a.FinishedAt.Sub(*a.StartedAt), true
}

// AttemptsOf returns all attempts of a run that the store has, without output, the oldest first. It
// returns none for a run that has not started.
func AttemptsOf(ctx context.Context, store RunAttempts, run Record) ([]RunAttempt, error) {
	last, started := run.LastAttempt()
	if !started {
		return nil, nil
	}
	last.Output = ""
	if last.Attempt < 2 {
		return []RunAttempt{last}, nil
	}
	attempts, err := store.RunAttempts(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	// The run may have been read before its attempt ended.
	attempts = slices.DeleteFunc(attempts, func(a RunAttempt) bool {
		return a.Attempt >= last.Attempt
	})
	return append(attempts, last), nil
}

// AttemptEnd says how an attempt ended, if another attempt follows.
type AttemptEnd struct {
	State  jobs.State // Failed or TimedOut; "" means Failed
	Reason jobs.Reason
	Detail string
}

// EndState returns State, or Failed for "".
func (e AttemptEnd) EndState() jobs.State { return cmp.Or(e.State, jobs.Failed) }

// LastAttempt returns the current, last or next attempt of the run. It returns false for a run that
// has not started.
func (r Record) LastAttempt() (RunAttempt, bool) {
	if r.StartedAt == nil {
		return RunAttempt{}, false
	}
	a := RunAttempt{Attempt: r.Attempt, State: r.State, Reason: r.Reason, Detail: r.Detail,
		FinishedAt: r.FinishedAt, StartedAt: r.StartedAt, Replica: r.Replica, Token: r.Token,
		Error: r.Error, Waited: r.Waited, Output: r.Output}
	n := len(r.RetryWaits)
	if n == 0 {
		return a, true
	}
	if a.StartedAt = r.RetryWaits[n-1].Until; a.StartedAt == nil {
		a.Token, a.Waited = 0, nil // of the attempt before
	}
	if a.StartedAt == nil || !r.State.Final() {
		a.Error = "" // of the attempt before
	}
	return a, true
}
