package jobs

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// State is where a run stands.
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

// States lists all states, in the order of a run's life.
func States() []State {
	return []State{Waiting, Running, Succeeded, Failed, TimedOut, Cancelled, Lost, Skipped, Missed}
}

// Final reports whether a run in this state has ended.
func (s State) Final() bool { return s != Waiting && s != Running }

// Token is a claim's number. It grows with each claim of the cluster, so of
// two runs on one resource the later has the larger. 0 is no token.
type Token = locking.Token

// Firing is the unit that happens once in the cluster.
type Firing struct {
	Job         string
	ScheduledAt time.Time // whole microseconds, UTC
	// Key is empty for a scheduled firing, and the trigger's own key for a
	// manual one, which never collides with a scheduled time.
	Key      string
	Recovery int // 0, or the how-manieth recovery of the firing
}

// Blocker is what stood in a run's way: a run, or a lock of a program, that holds
// the resource or only waits for it. Blockers are comparable.
type Blocker struct {
	Resource string        `json:"resource"`
	Holder   locking.Owner `json:"holder"` // or, where Waiting, the waiter
	Waiting  bool          `json:"waiting,omitempty"`
	// Root is what the waiter waits for, directly or by way of others that wait; zero
	// where the blocker holds the resource itself, or where that was not known.
	Root Root `json:"root,omitzero"`
}

// Root is the holder at the end of a chain of waiters: what it holds has them wait.
type Root struct {
	Resource string        `json:"resource"`
	Holder   locking.Owner `json:"holder"`
}

// Words say what the blocker does, as in "table public/orders is held by job …": with
// verb for one that holds the resource.
func (b Blocker) Words(verb string) string {
	if !b.Waiting {
		return fmt.Sprintf("%s %s %s", b.Resource, verb, locking.Holder{Owner: b.Holder})
	}
	return b.Resource + ": " + b.Queue()
}

// Queue says behind which waiter a run queues, and for what that waits.
func (b Blocker) Queue() string {
	words := fmt.Sprintf("queued behind %s (waiting)", locking.Holder{Owner: b.Holder})
	if b.Root == (Root{}) {
		return words
	}
	return words + fmt.Sprintf(", which waits for %s (holds %s)",
		locking.Holder{Owner: b.Root.Holder}, b.Root.Resource)
}

// Wait is what a run was kept waiting by before it started, as last written
// down: a wait of less than a second seldom is.
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
	// 0 until it has started; then of the attempt that runs, ran last or is waited for
	Attempt   int       `json:"attempt"`
	Replica   string    `json:"replica,omitempty"`
	Token     Token     `json:"token,omitempty"` // of its last claim
	CreatedAt time.Time `json:"created_at"`
	WaitSince time.Time `json:"waiting_since,omitzero"` // of a waiting one: decides who is older
	// of a triggered one with a limit: when it must have begun
	StartBy    *time.Time `json:"start_by,omitempty"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	Rests      []Rest     `json:"rests,omitempty"` // the oldest first, at most 32: see EndRest
	Reason     Reason     `json:"reason,omitempty"`
	Detail     string     `json:"detail,omitempty"` // the reason in words
	BlockedBy  *Blocker   `json:"blocked_by,omitempty"`
	Error      string     `json:"error,omitempty"`
	// before it started; nil where it did not wait for another
	Waited *Wait `json:"waited,omitempty"`
	// Params are those of the moment, of a run that was triggered with some.
	Params json.RawMessage `json:"params,omitempty"`
	Output string          `json:"output,omitempty"` // only where one run is asked for
	// Result is what the handler gave, in the last attempt that gave something;
	// only where one run is asked for.
	Result json.RawMessage `json:"result,omitempty"`
}

// Took returns for how long attempts of the run went on, without the rests between
// them, or false where it did not run, or does still.
func (r Record) Took() (time.Duration, bool) {
	return executedIn(r.StartedAt, r.FinishedAt, r.Rests)
}

// obstacle says what a waiting run waited for, as it was last written down.
func (r Record) obstacle() string {
	if r.Reason == ReasonTriggered { // its detail says by whom
		return "there was no worker for it; " + r.Detail
	}
	if r.BlockedBy == nil {
		return r.Detail
	}
	return r.BlockedBy.Words(r.Reason.relation())
}
