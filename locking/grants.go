package locking

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/session"
)

var (
	// ErrSessionLost says that a session has ended or expired. It never revives.
	ErrSessionLost = session.ErrLost
	// ErrNoSession says that a Locker with Grants has no session now: Run has not opened one yet,
	// has lost it, or has returned.
	ErrNoSession = session.ErrNone
	// ErrSuperseded says that a claim is gone. No write of its owner may take effect any more.
	ErrSuperseded = errors.New("superseded: its claim is gone")
)

// Token is a fencing token: the number of a claim. Each new claim of the cluster gets a larger one.
// 0 is no token.
type Token int64

// Session says that a replica is alive.
type Session struct {
	ID      uuid.UUID // drawn by the replica, new for each session
	Replica string
	Version string // of the program, for display
	TTL     time.Duration
	// ReplaceEarlier says that all earlier sessions of this replica name belong to dead processes.
	// OpenSession then ends them at once. Set it if the name is configured and the process has just
	// begun.
	ReplaceEarlier bool
}

// HeartbeatReply is the reply to a heartbeat.
type HeartbeatReply struct {
	Now     time.Time           // the store's clock
	Claims  map[Token]uuid.UUID // every claim of the session, with its lock's id
	Waiting []uuid.UUID         // ids of the session's locks that are queued
}

// GrantRequest asks for a claim on all of the requests, or on none.
type GrantRequest struct {
	ID       uuid.UUID // of the lock, drawn by the caller; the same in every try of one session
	Owner    Owner     // for display
	Requests []Request // normalized; empty requests are granted at once
	// Wait queues the lock at its first refusal. The lock leaves the queue when it is granted or
	// withdrawn, or when its session ends. A refusal without Wait changes nothing.
	Wait bool
	// Reserve is how long each reservation of the position lasts: see the function Reserve.
	Reserve time.Duration
}

// GrantBlocker is a lock that blocks a request: a holder or, if no holder blocks it, a waiter. The
// choice stays the same while nothing changes.
type GrantBlocker struct {
	ID       uuid.UUID // of the lock that holds or waits
	Resource Resource  // of the blocker: the same name, an ancestor or a descendant
	Holder   Owner
	Since    time.Time // when it was granted or queued, by the store's clock
	Waiting  bool      // an older waiter, not a holder
}

// GrantResult is the reply to a GrantRequest. Either Token or Blocker is set.
type GrantResult struct {
	Token   Token
	Blocker *GrantBlocker
}

// Released is a lock that its owner did not release: its session ended, or an operator released it
// by force.
type Released struct {
	ID       uuid.UUID
	Token    Token
	Owner    Owner
	Requests []Request // normalized
}

// ReleaseResult is what a release did to one claim.
type ReleaseResult int

// The results of a release.
const (
	ReleaseMissing ReleaseResult = iota // there was no such claim
	ReleaseDone                         // the claim existed, and is released
	ReleaseInUse                        // not released: an open transaction relies on the claim
)

// MaxGrants limits the locks that one call of Grants may name. It also limits the resources of all
// of them together.
const MaxGrants = 1000

// Grants decides which locks are held. A claim exists until it is released, or its session is ended
// or swept.
//
// Methods may be called concurrently. Each has all of its effect or none. Errors wrap
// ErrUnavailable if there was no reply; the call may then have taken effect. A repeated call with
// the same arguments has no further effect and returns the same result. But Release and Sweep
// report only once what they released.
type Grants interface {
	Sessions
	// OpenSession registers the session. It is live for its TTL from now. OpenSession returns
	// ErrSessionLost if the ID belongs to a session that has ended or expired.
	OpenSession(ctx context.Context, s Session) error
	// Heartbeat renews a live session for its TTL. It returns ErrSessionLost if the session has
	// ended or expired.
	Heartbeat(ctx context.Context, session uuid.UUID) (HeartbeatReply, error)
	// EndSession ends the session and removes its claims and waiters. It returns nil if there is no
	// such session.
	EndSession(ctx context.Context, session uuid.UUID) error
	// Grant decides on each request, in the order given. Each one sees the claims granted before
	// it. The ids of one call differ. Grant refuses a request in these cases:
	//
	//   - A holder conflicts with it (see Conflict).
	//   - An older waiter of a live session conflicts with it, and the position of the waiter is
	//     reserved.
	//   - No slot is left. Each holder has one slot, and so does each older waiter with a reserved
	//     position.
	//
	// Grant returns ErrSessionLost, and grants nothing, if the session has ended or expired.
	Grant(ctx context.Context, session uuid.UUID, requests []GrantRequest) ([]GrantResult, error)
	// Withdraw removes locks of the session from the queue. It releases the claims of those that
	// were granted meanwhile.
	Withdraw(ctx context.Context, session uuid.UUID, ids []uuid.UUID) error
	// Release releases claims, and returns what became of each. It does not wait for transactions.
	Release(ctx context.Context, tokens []Token) ([]ReleaseResult, error)
	// Sweep ends expired sessions, releases their locks and returns them. Any replica may call it
	// at any time.
	Sweep(ctx context.Context) ([]Released, error)
}
