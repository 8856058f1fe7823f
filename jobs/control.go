package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// Errors of what operators ask for.
var (
	// ErrPaused says that the job, its group or everything is paused. A
	// *PausedError says by whom.
	ErrPaused = errors.New("paused")
	// ErrConflict says that things are no longer as the caller believes: the
	// job was changed by another, the lock has another holder, or the key was
	// used for something else.
	ErrConflict = errors.New("conflict")
	// ErrHasDependents says that other added jobs follow the one that was to be
	// removed. It wraps ErrConflict.
	ErrHasDependents = fmt.Errorf("%w: it is followed", ErrConflict)
	// ErrFromConfig says that a job comes from the configuration file: it is
	// changed there.
	ErrFromConfig = errors.New("job comes from the configuration file")
	// ErrInTransaction says that what was to be taken away is held by a
	// transaction that is open, and that may still commit: it may be ended.
	ErrInTransaction = errors.New("holder is inside a transaction")
)

// PausedError says what is paused, and by whom.
type PausedError struct {
	Pause Pause
}

// Error says who paused what, and when.
func (e *PausedError) Error() string {
	return fmt.Sprintf("%s is paused since %s by %s", e.Pause.Target,
		e.Pause.At.Format(time.RFC3339), e.Pause.By)
}

// Unwrap returns ErrPaused.
func (e *PausedError) Unwrap() error { return ErrPaused }

// Action says who asks for something to be done, as the audit log keeps it.
type Action struct {
	// who: a user, a token's name, or the user of the command line; at most 200 bytes
	Actor   string
	Via     string // "page", "api", "cli" or "go"
	Replica string // through which replica; "" beside all
	Reason  string // in the actor's words; may be empty; at most 500 bytes
	// Key makes the action happen once: a second action with the same key and the
	// same kind and target does nothing and tells the same outcome; with another
	// kind or target it is refused with ErrConflict. "" is no key. At most 200
	// bytes.
	Key string
}

// Target is what a pause covers.
type Target struct {
	Kind TargetKind `json:"kind"`
	Name string     `json:"name,omitempty"` // of the job or the group
}

// TargetKind is a kind of Target.
type TargetKind string

// The kinds of targets.
const (
	TargetJob   TargetKind = "job"
	TargetGroup TargetKind = "group"
	TargetAll   TargetKind = "all"
)

// String names the target: "job rollup", "group night", "everything".
func (t Target) String() string {
	if t.Kind == TargetAll {
		return "everything"
	}
	return string(t.Kind) + " " + t.Name
}

// Pause keeps the scheduled firings of its target from starting. Triggers by
// hand that say so start all the same; what runs goes on, its attempts too.
type Pause struct {
	ID        uuid.UUID  `json:"id"`
	Target    Target     `json:"target"`
	At        time.Time  `json:"paused_at"`
	By        string     `json:"paused_by"`
	Reason    string     `json:"reason,omitempty"`
	ResumedAt *time.Time `json:"resumed_at,omitempty"` // nil while it stands
	ResumedBy string     `json:"resumed_by,omitempty"`
}

// Covers reports whether the pause concerns a job of that group.
func (p Pause) Covers(job, group string) bool {
	switch p.Target.Kind {
	case TargetAll:
		return true
	case TargetGroup:
		return group != "" && p.Target.Name == group
	default:
		return p.Target.Name == job
	}
}

// Spec is a job that was added at run time, as the store keeps it.
type Spec struct {
	Job string `json:"job"`
	// Text is the job as the configuration would have it, in JSON, completed
	// with the defaults of the replica that took it, so that all agree.
	Text json.RawMessage `json:"spec"`
	// Version grows with each change. In a call to PutSpec it is the one that
	// the caller has seen: 0 for a job that is to be new.
	Version   int64     `json:"version"`
	ChangedAt time.Time `json:"changed_at"`
	ChangedBy string    `json:"changed_by"`
	Removed   bool      `json:"removed,omitempty"` // it fires no more; what runs ends by itself
}

// SpecCheck decides whether a job may be added, changed or removed beside the jobs
// that were added before. It must be quick, and ask nothing of the store, which
// keeps other changes waiting meanwhile.
type SpecCheck func(added []Spec) error

// TriggerRequest asks for a run by hand.
type TriggerRequest struct {
	Job string
	// Key is the run's, and makes the request repeatable: the same key with the
	// same params is the same run, with other params ErrConflict. A run that ended as
	// Skipped leaves its key free. "" draws one.
	Key string
	// Params of the moment, merged over the job's own by key; nil: the job's own.
	// The caller has checked them against the handler's type.
	Params json.RawMessage
	// EvenPaused starts the run although its job is paused; without it that is
	// a *PausedError.
	EvenPaused bool
	// Wait is how long the run may wait before it begins: for what is in its way, for a
	// replica and for a worker. A run that has not begun by then ends as Skipped. With 0
	// the trigger is refused with a *BusyError where another run or lock is in the way;
	// the run of one that is accepted has TriggerGrace to begin. nil: the run waits until
	// its job's deadline. A key that has a run already is answered with that, whatever
	// the Wait.
	Wait *time.Duration
}

// ReleaseRequest asks for a lock to be taken away from its holder.
type ReleaseRequest struct {
	Resource locking.Resource
	Token    Token // as the caller has seen it: where another holds it now, ErrConflict
	// EndTransaction ends the holder's open transaction, if there is one: it
	// rolls back. Without it that is ErrInTransaction.
	EndTransaction bool
}

// Audited is one line of the audit log.
type Audited struct {
	ID      uuid.UUID `json:"id"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Via     string    `json:"via"`
	Replica string    `json:"replica,omitempty"`
	// "pause", "resume", "trigger", "cancel", "release", "drain", "undrain", "put_job",
	// "remove_job", "deliver_again"
	Action string `json:"action"`
	// "job rollup", "run …", "table public/orders", "replica a"
	Target string          `json:"target"`
	Reason string          `json:"reason,omitempty"`
	Detail json.RawMessage `json:"detail,omitempty"` // what else there is to know, by action
}

// AuditFilter narrows the audit log; zero fields do not.
type AuditFilter struct {
	Actor  string
	Action string
	Target string
	Before *RunCursor // the page after this line: its At and ID
	Limit  int        // 1 to MaxBatch; 0 means 100
}

// ControlState is what operators want of a replica.
type ControlState struct {
	// Generation grows with every action that any replica must hear of.
	Generation int64
	Pauses     []Pause // those that stand
	Specs      []Spec  // those that are not removed, by job
	// Cancels are the runs of the session that are to end, with who asked.
	Cancels  map[uuid.UUID]string
	Draining bool // the session is to start nothing more
	// Watched are the running runs of the session that somebody looks at.
	Watched []uuid.UUID
}

// Control is what operators do. Each action and its line in the audit log are one
// transaction; an action on what does not exist is ErrNotFound. Replicas hear of
// actions by Listen at once, and by asking for Orders each second where that fails.
type Control interface {
	// Pause pauses the target, or returns the pause that stands already. A job
	// must be known; a group need not.
	Pause(ctx context.Context, action Action, target Target) (Pause, error)
	// Resume ends the target's own pause; ErrNotFound where there is none.
	Resume(ctx context.Context, action Action, target Target) (Pause, error)
	// Trigger adds a waiting run that any replica may adopt, and says what is in its
	// way. A trigger that is refused adds nothing and leaves its key free. The action's Key
	// is not looked at: the request has its own.
	Trigger(ctx context.Context, action Action, r TriggerRequest) (Triggered, error)
	// Cancel ends a waiting run at once, and asks the replica of a running one
	// to end it: the record says which of them it was. A run that has ended is
	// ErrConflict.
	Cancel(ctx context.Context, action Action, run uuid.UUID) (Record, error)
	// Release deletes the claim that holds the resource, with all its grants:
	// its holder can commit nothing more. The run becomes lost, and is not
	// recovered. It returns what the claim held, for stage 1 to be cleared.
	Release(ctx context.Context, action Action, r ReleaseRequest) (locking.Released, error)
	// Drain asks a living session to start nothing more but further attempts,
	// or to start again. What waits in one that drains others may adopt.
	Drain(ctx context.Context, action Action, session uuid.UUID, drain bool) error
	// PutSpec adds a job, or changes one that was added. Of two that add or
	// change one at once, one wins, the other is told ErrConflict. Each check is
	// called with the added jobs that there are, by name, and no job is added,
	// changed or removed between that and the action: what it returns ends the action.
	PutSpec(ctx context.Context, action Action, s Spec, checks ...SpecCheck) (Spec, error)
	// RemoveSpec removes a job that was added; version and checks as in PutSpec.
	// What waits of it is cancelled.
	RemoveSpec(ctx context.Context, action Action, job string, version int64,
		checks ...SpecCheck) error
	// ControlState returns what the session is to obey; a nil session is told what
	// holds for all. Where the generation is still since, only that and what
	// concerns the session alone is filled in.
	ControlState(ctx context.Context, session uuid.UUID, since int64) (ControlState, error)
	// Listen calls heard once it listens, and after each action, until ctx ends or
	// the connection does; it returns why. Acts may be missed. A store of one process returns only
	// when ctx ends.
	Listen(ctx context.Context, heard func()) error
	// Pauses returns the pauses that stood at any time from from to until and
	// that cover a job of that group, the oldest first.
	Pauses(ctx context.Context, job, group string, from, until time.Time) ([]Pause, error)
	// Audit returns the audit log, the youngest line first.
	Audit(ctx context.Context, f AuditFilter) ([]Audited, error)
}
