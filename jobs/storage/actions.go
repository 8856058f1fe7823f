package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Actions executes operator actions. Each action and its entry in the audit log are one
// transaction. An action on an unknown object returns ErrNotFound. Replicas learn of an action at
// once through Listen of Control. They also read ControlState at least once a second, because
// Listen can fail and miss actions.
type Actions interface {
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
	Cancel(ctx context.Context, action Action, run uuid.UUID) (Record, error)
	// Release deletes the claim that holds the resource, with all its grants. Its holder cannot
	// commit any more. The run becomes lost, and is not recovered. It returns what the claim held,
	// so that the caller can clear the advisory locks.
	Release(ctx context.Context, action Action, r ReleaseRequest) (locking.Released, error)
	// Drain drains a live session, or ends its drain if drain is false. A draining session starts
	// nothing except further attempts of its runs. Other replicas may adopt its waiting runs that
	// have not started.
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
	// AddBackfill adds a backfill. It returns ErrNotFound if no replica has registered the job, and
	// ErrConflict if the job has an active backfill.
	AddBackfill(ctx context.Context, action Action, r BackfillRequest) (Backfill, error)
	// CancelBackfill ends an active backfill and cancels its waiting runs. Its running runs
	// continue to their end. A backfill that has ended is ErrConflict.
	CancelBackfill(ctx context.Context, action Action, backfill uuid.UUID) (Backfill, error)
}

// Action identifies an operator's action in the audit log.
type Action struct {
	// a user, the name of a token, or the user of the command line; at most 200 bytes
	Actor     string
	Via       string // "page", "api", "cli" or "go"
	Proof     string // how the actor was identified, as in Audited; "" if it is not recorded
	Client    string // the address that asked; "" without a network; at most 200 bytes
	RequestID string // of the request to the page or the API; at most 200 bytes
	Replica   string // the replica that executes it; "" if none does
	Reason    string // free text; may be empty; at most 500 bytes
	// Key makes the action idempotent. Each actor has keys of its own. A second action of the actor
	// with the same key and the same request does nothing and returns the same outcome. With
	// another kind, target or request it returns ErrKeyUsed. "" means no key. At most 200 bytes.
	Key string

	request string // a digest of what the request says beside its target
}

// Asking returns the action with a digest of the parts. The parts are what its request says besides
// its kind and target, for example the definition of a job or the token of a lock. Stores call it.
func (a Action) Asking(parts ...string) Action {
	sum := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part) // a hash returns no error
	}
	a.request = hex.EncodeToString(sum.Sum(nil))
	return a
}

// By returns what was done, by whom and why, for the detail of a run.
func (a Action) By(what string) string {
	if a.Reason == "" {
		return what + " by " + a.Actor
	}
	return what + " by " + a.Actor + ": " + a.Reason
}

// Request returns the digest that Asking has added, or "" if there is none.
func (a Action) Request() string { return a.request }

// CheckKey returns ErrKeyUsed unless the earlier action with the key had the same kind, target and
// digest. request is the digest of the earlier action.
func (a Action) CheckKey(kind, target string, earlierKind, earlierTarget, request string) error {
	if kind == earlierKind && target == earlierTarget && a.request == request {
		return nil
	}
	other := ""
	if kind == earlierKind && target == earlierTarget {
		other = " with another request"
	}
	return fmt.Errorf("key %q was used to %s %s%s: %w", a.Key, earlierKind, earlierTarget, other,
		ErrKeyUsed)
}

// Errors of operator actions.
var (
	// ErrPaused says that the job, its group or everything is paused. A *PausedError names the
	// pause.
	ErrPaused = errors.New("paused")
	// ErrConflict says that the action does not fit the current state. For example, another caller
	// changed the job, the lock has another holder, or the run has ended.
	ErrConflict = errors.New("conflict")
	// ErrKeyUsed says that the actor has used the key for another request. It wraps ErrConflict.
	ErrKeyUsed = fmt.Errorf("%w: the key belongs to another request", ErrConflict)
	// ErrHasDependents says that other added jobs depend on the job to remove. It wraps
	// ErrConflict.
	ErrHasDependents = fmt.Errorf("%w: other jobs depend on it", ErrConflict)
	// ErrFromConfig says that the job comes from the configuration file and must be changed there.
	ErrFromConfig = errors.New("job comes from the configuration file")
	// ErrInTransaction says that the holder has an open transaction, which may still commit. The
	// caller can ask to end it.
	ErrInTransaction = errors.New("holder is inside a transaction")
)

// ReleaseRequest requests the release of a lock by force.
type ReleaseRequest struct {
	Resource locking.Resource
	Token    jobs.Token // as the caller has seen it: another current holder is ErrConflict
	// EndTransaction ends the holder's open transaction, if there is one: it rolls back. Without it
	// an open transaction is ErrInTransaction.
	EndTransaction bool
}

// NotHeld returns an ErrConflict: the token does not hold the resource. The holders are described
// as "nightly on web-1 with token 7".
func (r ReleaseRequest) NotHeld(holders []string) error {
	holder := "no run"
	if len(holders) > 0 {
		holder = strings.Join(holders, " and ")
	}
	return fmt.Errorf("token %d does not hold %s, which is held by %s: %w", r.Token, r.Resource,
		holder, ErrConflict)
}
