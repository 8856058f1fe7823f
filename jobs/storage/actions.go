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

// Actions executes actions of operators. Each action and its entry in the audit log are one
// transaction. An action on an unknown object returns ErrNotFound. Replicas learn of an action
// through Listen. A replica with runs, and one that cannot listen, also reads ControlState every
// 0.75 s. For all other replicas, each heartbeat shows whether the control state has changed.
type Actions interface {
	// Pause pauses the target, or returns its active pause. A target job must exist. A target group
	// need not exist.
	Pause(ctx context.Context, action Action, target Target) (Pause, error)
	// Resume ends the target's own pause, or returns ErrNotFound if there is none.
	Resume(ctx context.Context, action Action, target Target) (Pause, error)
	// Trigger adds a waiting run. Any replica may adopt it, unless the Adopter of the request
	// adopts it at once. A refused trigger leaves its key free. The key is that of the request, not
	// that of the action.
	Trigger(ctx context.Context, action Action, r TriggerRequest) (Triggered, error)
	// Cancel ends a waiting run, or asks the replica of a running run to end it. The state of the
	// result shows which. It returns ErrConflict for a run that has ended.
	Cancel(ctx context.Context, action Action, run uuid.UUID) (Record, error)
	// Release deletes the claim that holds the resource, with all its grants. The run becomes lost,
	// and is not recovered. Release returns what the claim held, so that the caller can remove the
	// advisory locks.
	Release(ctx context.Context, action Action, r ReleaseRequest) (locking.Released, error)
	// Drain drains a live session, or ends its drain. A draining session starts only further
	// attempts of its runs. Other replicas may adopt its waiting runs that have not started.
	Drain(ctx context.Context, action Action, session uuid.UUID, drain bool) error
	// RemoveReplica removes all lost sessions of a lost session's replica from Replicas. It returns
	// ErrNotFound for a session that has not ended, that its replica ended itself, or that was
	// removed before.
	RemoveReplica(ctx context.Context, action Action, session uuid.UUID) error
	// PutSpec adds a job, or changes an added one. It returns ErrConflict if s.Version is not the
	// current one. It calls the checks with the added jobs, sorted by name, and returns the first
	// error. No other action changes the added jobs meanwhile.
	PutSpec(ctx context.Context, action Action, s Spec, checks ...SpecCheck) (Spec, error)
	// RemoveSpec removes an added job and cancels its waiting runs. Version and checks are as in
	// PutSpec.
	RemoveSpec(ctx context.Context, action Action, job string, version int64,
		checks ...SpecCheck) error
	// AddBackfill adds a backfill. It returns ErrNotFound if no replica has registered the job, and
	// ErrConflict if the job has an active backfill.
	AddBackfill(ctx context.Context, action Action, r BackfillRequest) (Backfill, error)
	// CancelBackfill ends an active backfill and cancels its waiting runs. Its running runs
	// continue. It returns ErrConflict for a backfill that has ended.
	CancelBackfill(ctx context.Context, action Action, backfill uuid.UUID) (Backfill, error)
}

// Action says who acts, and how. Texts have at most MaxNameBytes, and Reason at most
// MaxReasonBytes.
type Action struct {
	Actor     string // a user, the name of a token, or the user of the command line
	Via       string // "page", "api", "cli" or "go"
	Proof     string // how the actor was identified, as in Audited; "" if not recorded
	Client    string // the network address of the sender; "" if there is none
	RequestID string // of the request to the page or the API
	Replica   string // that executes the action; "" if none does
	Reason    string // free text
	// Key makes the action idempotent; "" means no key. Each actor has keys of its own. An action
	// with a repeated key does nothing. If kind, target and request are the same, the outcome is
	// that of the first action. Otherwise it is ErrKeyUsed.
	Key string

	request string // a digest of what the request says beside its target
}

// Asking returns the action with a digest of its request. The parts are those of the request except
// kind and target. Stores call it.
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

// Request returns the digest of Asking; "" if there is none.
func (a Action) Request() string { return a.request }

// CheckKey returns ErrKeyUsed if kind, target or digest differ from those of the earlier action
// with the key. The argument request is the digest of the earlier action.
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
	// ErrPaused says that a pause covers the job. A *PausedError names it.
	ErrPaused = errors.New("paused")
	// ErrConflict says that the current state does not allow the action. For example, the run has
	// ended, or another caller has changed the job.
	ErrConflict = errors.New("conflict")
	// ErrKeyUsed says that the actor has used the key for another request. It wraps ErrConflict.
	ErrKeyUsed = fmt.Errorf("%w: the key belongs to another request", ErrConflict)
	// ErrHasDependents says that other added jobs depend on the job to remove. It wraps
	// ErrConflict.
	ErrHasDependents = fmt.Errorf("%w: other jobs depend on it", ErrConflict)
	// ErrFromConfig says that the job comes from the configuration file, and must be changed there.
	ErrFromConfig = errors.New("job comes from the configuration file")
	// ErrInTransaction says that the holder has an open transaction. See
	// ReleaseRequest.EndTransaction.
	ErrInTransaction = errors.New("holder is inside a transaction")
)

// ReleaseRequest requests the release of a lock by force.
type ReleaseRequest struct {
	Resource locking.Resource
	Token    jobs.Token // of the holder that the caller has seen; ErrConflict for another holder
	// EndTransaction rolls back an open transaction of the holder. Without it an open transaction
	// is ErrInTransaction.
	EndTransaction bool
}

// NotHeld returns an ErrConflict which says that the token does not hold the resource. A holder is
// described as "nightly on web-1 with token 7".
func (r ReleaseRequest) NotHeld(holders []string) error {
	holder := "no run"
	if len(holders) > 0 {
		holder = strings.Join(holders, " and ")
	}
	return fmt.Errorf("token %d does not hold %s, which is held by %s: %w", r.Token, r.Resource,
		holder, ErrConflict)
}
