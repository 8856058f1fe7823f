package storage

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
)

// Record is a run in the history.
type Record struct {
	ID          uuid.UUID  `json:"id"`
	Job         string     `json:"job"`
	ScheduledAt time.Time  `json:"scheduled_at"`
	Key         string     `json:"key,omitempty"`       // of a trigger or a backfill
	KeyActor    string     `json:"key_actor,omitempty"` // the actor of the trigger
	State       jobs.State `json:"state"`
	Recovery    int        `json:"recovery"`
	// 0 until it has started; then the current, last or next attempt
	Attempt   int        `json:"attempt"`
	Replica   string     `json:"replica,omitempty"`
	Token     jobs.Token `json:"token,omitempty"` // of its last claim
	CreatedAt time.Time  `json:"created_at"`
	// of a waiting run: decides which waiter is older; in the future if the run was triggered for a
	// later time
	WaitSince time.Time `json:"waiting_since,omitzero"`
	// of a run that waits for a blocker: until when it waits, by the cron table of the replica that
	// answers; absent if that is not known
	WaitEnd *WaitEnd `json:"wait_end,omitempty"`
	// of a triggered run with a limit: when it must have begun
	StartBy    *time.Time    `json:"start_by,omitempty"`
	StartedAt  *time.Time    `json:"started_at,omitempty"`
	FinishedAt *time.Time    `json:"finished_at,omitempty"`
	RetryWaits []RetryWait   `json:"retry_waits,omitempty"` // the oldest first, at most 32
	Reason     jobs.Reason   `json:"reason,omitempty"`
	Detail     string        `json:"detail,omitempty"` // the reason in words
	BlockedBy  *jobs.Blocker `json:"blocked_by,omitempty"`
	Error      string        `json:"error,omitempty"`
	// how its current or last attempt waited for its locks, or how a skipped run did; absent
	// without a recorded blocker
	Waited *Wait `json:"waited,omitempty"`
	// Backfill is the backfill that added the run; zero for other runs.
	Backfill uuid.UUID `json:"backfill,omitzero"`
	// Params are the trigger params.
	Params json.RawMessage `json:"params,omitempty"`
	// Output is that of the current or last attempt; only if one run is read. RunAttempts has
	// earlier ones.
	Output string `json:"output,omitempty"`
	// Result is the result of the last attempt that set one; only if one run is read.
	Result json.RawMessage `json:"result,omitempty"`
}

// Took returns the time of all attempts, as Outcome.Took does.
func (r Record) Took() (time.Duration, bool) {
	return executedIn(r.StartedAt, r.FinishedAt, r.RetryWaits)
}

// StartsLater reports whether the run was triggered for a scheduled time after now.
func (r Record) StartsLater(now time.Time) bool {
	return r.State == jobs.Waiting && r.Key != "" && r.WaitSince.After(now)
}

// BlockerText describes the last recorded blocker of a waiting run.
func (r Record) BlockerText() string {
	if r.Reason == reasons.Triggered || r.Reason == reasons.Backfill { // its detail names the actor
		return "no replica had begun it; " + r.Detail
	}
	if r.BlockedBy == nil {
		return r.Detail
	}
	return r.BlockedBy.Words(r.Reason.Relation())
}

// Wait is the last recorded blocker of an attempt before it started. Waits of less than a second
// are seldom recorded.
type Wait struct {
	jobs.Blocker
	// Since is when the first attempt of the run began to wait, or when the blocker began to block
	// a later attempt. Of a skipped run it is at most a second later.
	Since time.Time `json:"since"`
}
