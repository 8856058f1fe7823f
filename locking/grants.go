package locking

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/session"
)

var (
	// ErrSessionLost says that a session has ended or expired. It never
	// revives; a replica opens a new one.
	ErrSessionLost = session.ErrLost
	// ErrNoSession says that a Locker with Grants has no session now: Run has not
	// opened one yet, has lost it, or has returned.
	ErrNoSession = session.ErrNone
	// ErrSuperseded says that a claim is gone. No further write of its owner may
	// take effect.
	ErrSuperseded = errors.New("superseded: its claim is gone")
)

// Token is a claim's number. It grows with each claim of the cluster, so the later
// of two locks on one resource has the larger token. 0 is no token.
type Token int64

// Session says that a replica is alive. The store of the grants keeps it.
type Session struct {
	ID      uuid.UUID // drawn by the replica, new for each session
	Replica string
	Version string // of the program, for display
	TTL     time.Duration
	// Succeeds says that all earlier sessions of the replica belong to dead
	// processes, because its name is configured and its process has just begun.
	// OpenSession then ends other sessions of the same name at once.
	Succeeds bool
}

// HeartbeatReply is the reply to a heartbeat.
type HeartbeatReply struct {
	Now     time.Time           // the store's clock
	Claims  map[Token]uuid.UUID // every claim of the session, with its lock's id
	Waiting []uuid.UUID         // ids of the session's locks that are queued
}

// GrantRequest asks for a claim on all of the requests, or on none.
type GrantRequest struct {
	ID       uuid.UUID // of the lock; drawn by the caller for one session, the same in every try
	Owner    Owner     // for display
	Requests []Request // normalized; empty requests are granted at once
	// Wait queues the lock at its first refusal. While its position is reserved,
	// younger conflicting requests yield to it. It stays queued until it is granted
	// or withdrawn, or its session ends or expires. Without Wait a refusal changes
	// nothing, and a queued lock stays queued.
	Wait bool
	// Reserve is how long a waiter's position is reserved (see the function
	// Reserve). Afterwards younger requests may pass it.
	Reserve time.Duration
}

// GrantBlocker is a lock that blocks a request. If both holders and waiters block
// the request, it is one of the holders. The choice stays the same while nothing
// changes.
type GrantBlocker struct {
	ID       uuid.UUID // of the lock that holds or waits
	Resource Resource  // of the blocker: the same name, an ancestor or a descendant
	Holder   Owner
	Since    time.Time // when it was granted or queued, by the store's clock
	Waiting  bool      // it is an older waiter, not a holder
}

// GrantResult is the reply to a GrantRequest. Either Token or Blocker is set.
type GrantResult struct {
	Token   Token
	Blocker *GrantBlocker
}

// Released is a lock that its owner did not release itself: its session ended, or an
// operator released it by force.
type Released struct {
	ID       uuid.UUID
	Token    Token
	Owner    Owner
	Requests []Request // normalized
}

// MaxGrants limits the locks that one call of Grants may name, and the resources of
// all of them together.
const MaxGrants = 1000

// Grants decides which locks are held, in every mode. A claim exists until it is
// released, or its session is ended or swept.
//
// Every method may be called concurrently and has all of its effect or none. After
// an error the call may have taken effect. It may be repeated with the same
// arguments, and has its effect only once. The repeated call returns the same
// result, except that Release and Sweep do not report what the first call has
// released. Errors wrap ErrUnavailable when the store could not be reached or its
// reply was lost.
type Grants interface {
	Sessions
	// OpenSession registers the session, live for its TTL from now. It returns
	// ErrSessionLost if the ID belongs to a session that has ended or expired.
	OpenSession(ctx context.Context, s Session) error
	// Heartbeat renews a live session: its TTL counts again from now. It returns ErrSessionLost if
	// the session has ended or expired.
	Heartbeat(ctx context.Context, session uuid.UUID) (HeartbeatReply, error)
	// EndSession ends the session and removes its claims and waiters. It returns nil
	// if there is no such session.
	EndSession(ctx context.Context, session uuid.UUID) error
	// Grant decides on each request, in the order given. Each one sees the claims
	// granted before it.
	//
	// Grant refuses a request because of a conflicting holder in any session (see
	// Conflict), or because a conflicting waiter of a live session is older and its
	// position is reserved. A slotted request is also refused when no slot of the
	// name is left. Each holder has one slot, and each such older waiter for a slot
	// counts as a holder.
	//
	// Grant returns ErrSessionLost, and grants nothing, when the session has ended
	// or expired. The ids of one call differ.
	Grant(ctx context.Context, session uuid.UUID, requests []GrantRequest) ([]GrantResult, error)
	// Withdraw removes locks of the session from the queue, and releases the claims
	// of those that were granted meanwhile.
	Withdraw(ctx context.Context, session uuid.UUID, ids []uuid.UUID) error
	// Release releases claims, and reports for each whether it existed. A claim that
	// an earlier call has released, with a lost reply, no longer exists.
	Release(ctx context.Context, tokens []Token) ([]bool, error)
	// Sweep ends expired sessions and returns their locks, which it has released.
	// Any replica may call it at any time.
	Sweep(ctx context.Context) ([]Released, error)
}
