package jobs

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// State is the state of a run.
type State string

// The states of a run. Waiting and Running are active; the others are final.
const (
	Waiting   State = "waiting"
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	TimedOut  State = "timed_out"
	Cancelled State = "cancelled"
	Lost      State = "lost"
	Skipped   State = "skipped"
	Missed    State = "missed"
)

// States lists all states, in the order in which a run passes them.
func States() []State {
	return []State{Waiting, Running, Succeeded, Failed, TimedOut, Cancelled, Lost, Skipped, Missed}
}

// Final reports whether a run in this state has ended.
func (s State) Final() bool { return s != Waiting && s != Running }

// Token is the fencing token of a claim. It grows with each claim of the cluster: of two runs on
// one resource the later has the larger token. 0 is no token.
type Token = locking.Token

// Firing is a job at one scheduled time, or a trigger of the job, in the whole cluster.
type Firing struct {
	Job         string
	ScheduledAt time.Time // whole microseconds, UTC
	// Key is the key of the trigger, and empty for a scheduled firing. So a manual firing never
	// collides with a scheduled one.
	Key      string
	Recovery int // 0, or the number of the recovery
}

// Blocker is what is in a run's way: a run or a lock of a program that holds the resource, or an
// older waiter for it. Blockers are comparable.
type Blocker struct {
	Resource string        `json:"resource"`
	Holder   locking.Owner `json:"holder"` // the waiter if Waiting is set
	Waiting  bool          `json:"waiting,omitempty"`
	// Root is the holder for which the waiter waits, directly or through other waiters. It is zero
	// if the blocker is the holder, or if it is unknown.
	Root Root `json:"root,omitzero"`
}

// Root is the holder at the end of a chain of waiters.
type Root struct {
	Resource string        `json:"resource"`
	Holder   locking.Owner `json:"holder"`
}

// Words describes the blocker, as in "table public/orders is held by job …". verb is used for a
// holder.
func (b Blocker) Words(verb string) string {
	if !b.Waiting {
		return fmt.Sprintf("%s %s %s", b.Resource, verb, locking.Holder{Owner: b.Holder})
	}
	return b.Resource + ": " + b.Queue()
}

// Queue describes the waiter before a run in the queue, and what that waiter waits for.
func (b Blocker) Queue() string {
	words := fmt.Sprintf("queued behind %s (waiting)", locking.Holder{Owner: b.Holder})
	if b.Root == (Root{}) {
		return words
	}
	return words + fmt.Sprintf(", which waits for %s (holds %s)",
		locking.Holder{Owner: b.Root.Holder}, b.Root.Resource)
}

// Wait is the last recorded blocker of a run before it started. Waits of less than a second are
// seldom recorded.
type Wait struct {
	Blocker
	Since time.Time `json:"since"`
}

// Record is one run as the history shows it.
type Record struct {
	ID          uuid.UUID `json:"id"`
	Job         string    `json:"job"`
	ScheduledAt time.Time `json:"scheduled_at"`
	Key         string    `json:"key,omitempty"` // of a manual trigger
	State       State     `json:"state"`
	Recovery    int       `json:"recovery"`
	// 0 until it has started; then the current, last or next attempt
	Attempt   int       `json:"attempt"`
	Replica   string    `json:"replica,omitempty"`
	Token     Token     `json:"token,omitempty"` // of its last claim
	CreatedAt time.Time `json:"created_at"`
	// of a waiting run: decides which waiter is older
	WaitSince time.Time `json:"waiting_since,omitzero"`
	// of a triggered run with a limit: when it must have begun
	StartBy    *time.Time `json:"start_by,omitempty"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	Rests      []Rest     `json:"rests,omitempty"` // the oldest first, at most 32: see EndRest
	Reason     Reason     `json:"reason,omitempty"`
	Detail     string     `json:"detail,omitempty"` // the reason in words
	BlockedBy  *Blocker   `json:"blocked_by,omitempty"`
	Error      string     `json:"error,omitempty"`
	// before it started; nil if it had no blocker
	Waited *Wait `json:"waited,omitempty"`
	// Params are the trigger params, if there are any.
	Params json.RawMessage `json:"params,omitempty"`
	Output string          `json:"output,omitempty"` // only if one run is read
	// Result is the result of the last attempt that set one; only if one run is read.
	Result json.RawMessage `json:"result,omitempty"`
}

// Took returns the time of all attempts of the run, without the rests between them. It returns
// false if the run has not started or not ended.
func (r Record) Took() (time.Duration, bool) {
	return ExecutedIn(r.StartedAt, r.FinishedAt, r.Rests)
}

// BlockerText describes the last recorded blocker of a waiting run.
func (r Record) BlockerText() string {
	if r.Reason == ReasonTriggered { // its detail names the actor
		return "no worker was free; " + r.Detail
	}
	if r.BlockedBy == nil {
		return r.Detail
	}
	return r.BlockedBy.Words(r.Reason.Relation())
}
