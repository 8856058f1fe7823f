package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Errors of operator actions.
var (
	// ErrPaused says that the job, its group or everything is paused. A *PausedError names the
	// pause.
	ErrPaused = errors.New("paused")
	// ErrConflict says that the state differs from what the caller has seen: another caller changed
	// the job, the lock has another holder, or the key was used for another request.
	ErrConflict = errors.New("conflict")
	// ErrHasDependents says that other added jobs depend on the job to remove. It wraps
	// ErrConflict.
	ErrHasDependents = fmt.Errorf("%w: other jobs depend on it", ErrConflict)
	// ErrFromConfig says that the job comes from the configuration file and must be changed there.
	ErrFromConfig = errors.New("job comes from the configuration file")
	// ErrInTransaction says that the holder has an open transaction, which may still commit. The
	// caller can ask to end it.
	ErrInTransaction = errors.New("holder is inside a transaction")
)

// PausedError names the pause that covers a job.
type PausedError struct {
	Pause Pause
}

// Error names the target of the pause, its time and its actor.
func (e *PausedError) Error() string {
	return fmt.Sprintf("%s is paused since %s by %s", e.Pause.Target,
		e.Pause.At.Format(time.RFC3339), e.Pause.By)
}

// Unwrap returns ErrPaused.
func (e *PausedError) Unwrap() error { return ErrPaused }

// Action identifies an operator's action in the audit log.
type Action struct {
	// a user, the name of a token, or the user of the command line; at most 200 bytes
	Actor   string
	Via     string // "page", "api", "cli" or "go"
	Replica string // the replica that executes it; "" if none does
	Reason  string // free text; may be empty; at most 500 bytes
	// Key makes the action idempotent. A second action with the same key, kind and target does
	// nothing and returns the same outcome. With another kind or target it returns ErrConflict. ""
	// means no key. At most 200 bytes.
	Key string
}

// Target is the scope of a pause.
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

// Pause prevents the scheduled firings of its target from starting. Triggers with EvenPaused start
// anyway. Active runs go on, with their further attempts.
type Pause struct {
	ID        uuid.UUID  `json:"id"`
	Target    Target     `json:"target"`
	At        time.Time  `json:"paused_at"`
	By        string     `json:"paused_by"`
	Reason    string     `json:"reason,omitempty"`
	ResumedAt *time.Time `json:"resumed_at,omitempty"` // nil while the pause is active
	ResumedBy string     `json:"resumed_by,omitempty"`
}

// Covers reports whether the pause applies to a job of that group.
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

// Spec is a job that was added at run time.
type Spec struct {
	Job string `json:"job"`
	// Text is the job in the form of the configuration, as JSON. It includes the defaults of the
	// replica that accepted it, so that all replicas agree.
	Text json.RawMessage `json:"spec"`
	// Version grows with each change. In a call of PutSpec it is the version that the caller has
	// seen, or 0 for a new job.
	Version   int64     `json:"version"`
	ChangedAt time.Time `json:"changed_at"`
	ChangedBy string    `json:"changed_by"`
	Removed   bool      `json:"removed,omitempty"` // it is not fired any more; active runs go on
}

// SpecCheck decides whether a job may be added, changed or removed, given the other added jobs. It
// must return quickly and must not call the store, which blocks other changes meanwhile.
type SpecCheck func(added []Spec) error

// TriggerRequest requests a run by hand.
type TriggerRequest struct {
	Job string
	// Key is the key of the run and makes the request idempotent. The same key with the same params
	// returns the same run; with other params it returns ErrConflict. A run that ended as Skipped
	// leaves its key free. "" generates a key.
	Key string
	// Params override the job's own params, key by key; nil: the job's own. The caller has checked
	// them against the handler's type.
	Params json.RawMessage
	// EvenPaused starts the run even if its job is paused. Without it the result is a *PausedError.
	EvenPaused bool
	// Wait is how long the run may wait before it begins: for a blocker, a replica or a worker. A
	// run that has not begun by then ends as Skipped.
	//
	// With 0 the trigger returns a *BusyError if another run or lock is in the way. An accepted run
	// has TriggerGrace to begin. nil: the run waits until its job's deadline. A key that has a run
	// already returns that run, whatever the Wait.
	Wait *time.Duration
}

// ReleaseRequest requests the release of a lock by force.
type ReleaseRequest struct {
	Resource locking.Resource
	Token    jobs.Token // as the caller has seen it: another current holder is ErrConflict
	// EndTransaction ends the holder's open transaction, if there is one: it rolls back. Without it
	// an open transaction is ErrInTransaction.
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
	Detail json.RawMessage `json:"detail,omitempty"` // further facts, by action
}

// AuditFilter narrows the audit log. Zero fields do not filter.
type AuditFilter struct {
	Actor  string
	Action string
	Target string
	Before *RunCursor // the page after this line, given by its At and ID
	Limit  int        // 1 to MaxBatch; 0 means 100
}

// ControlState is what operators want a replica to obey.
type ControlState struct {
	// Generation grows with every action that replicas must obey.
	Generation int64
	Pauses     []Pause // the active ones
	Specs      []Spec  // sorted by job, without removed ones
	// Cancels are the session's runs that must end, with the actor of each request.
	Cancels  map[uuid.UUID]string
	Draining bool // the session must not start anything
	// Watched are the session's running runs that somebody watches.
	Watched []uuid.UUID
}

// Control executes operator actions. Each action and its line in the audit log are one transaction.
// An action on an unknown object returns ErrNotFound. Replicas learn of actions at once through
// Listen, or by polling ControlState each second if Listen fails.
type Control interface {
	// Pause pauses the target, or returns its active pause. A job must exist; a group need not.
	Pause(ctx context.Context, action Action, target Target) (Pause, error)
	// Resume ends the target's own pause. It returns ErrNotFound if there is none.
	Resume(ctx context.Context, action Action, target Target) (Pause, error)
	// Trigger adds a waiting run that any replica may adopt, and returns its blocker. A refused
	// trigger adds nothing and leaves its key free. The action's Key is ignored: the request has
	// its own.
	Trigger(ctx context.Context, action Action, r TriggerRequest) (Triggered, error)
	// Cancel ends a waiting run at once, and asks the replica of a running run to end it. The
	// record shows which of the two it was. A run that has ended is ErrConflict.
	Cancel(ctx context.Context, action Action, run uuid.UUID) (jobs.Record, error)
	// Release deletes the claim that holds the resource, with all its grants. Its holder cannot
	// commit any more. The run becomes lost, and is not recovered. It returns what the claim held,
	// so that the caller can clear the advisory locks.
	Release(ctx context.Context, action Action, r ReleaseRequest) (locking.Released, error)
	// Drain asks a live session to start nothing but further attempts, or to start runs again.
	// Other replicas may adopt the waiting runs of a draining session.
	Drain(ctx context.Context, action Action, session uuid.UUID, drain bool) error
	// PutSpec adds a job, or changes an added one. Of two concurrent calls one succeeds and the
	// other returns ErrConflict. The store calls each check with the added jobs, sorted by name. No
	// job is added, changed or removed between the check and the action. An error of a check ends
	// the action.
	PutSpec(ctx context.Context, action Action, s Spec, checks ...SpecCheck) (Spec, error)
	// RemoveSpec removes an added job; version and checks as in PutSpec. Its waiting runs are
	// cancelled.
	RemoveSpec(ctx context.Context, action Action, job string, version int64,
		checks ...SpecCheck) error
	// ControlState returns what the session must obey; with a nil session what applies to all. If
	// the generation is still since, only the generation and the fields of the session itself are
	// set.
	ControlState(ctx context.Context, session uuid.UUID, since int64) (ControlState, error)
	// Listen calls heard when it begins to listen, and after each action, until ctx ends or the
	// connection fails. It returns the reason. Actions can be missed. A store of one process
	// returns only when ctx ends.
	Listen(ctx context.Context, heard func()) error
	// Pauses returns the pauses that were active at any time between from and until and that cover
	// a job of that group, the oldest first.
	Pauses(ctx context.Context, job, group string, from, until time.Time) ([]Pause, error)
	// Audit returns the audit log, the youngest line first.
	Audit(ctx context.Context, f AuditFilter) ([]Audited, error)
}
