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
	// ErrNoSession says that a Locker with Grants has no session now: Run has
	// not opened one yet, has lost it, or has returned.
	ErrNoSession = session.ErrNone
	// ErrSuperseded says that a claim is gone: whatever its owner does now
	// must not take effect.
	ErrSuperseded = errors.New("superseded: its claim is gone")
)

// Token is a claim's number. It grows with each claim of the cluster, so of
// two locks on one resource the later has the larger. 0 is no token.
type Token int64

// Session is a replica's life in the grants' store.
type Session struct {
	ID      uuid.UUID // made by the replica, new for each session
	Replica string
	Version string // of the program, for display
	TTL     time.Duration
	// Succeeds says that the replica's former lives are known to be over,
	// because its name is configured and its process has just begun: other
	// sessions of the same name expire at once.
	Succeeds bool
}

// Beat is the answer to a heartbeat.
type Beat struct {
	Now     time.Time           // the store's clock
	Claims  map[Token]uuid.UUID // every claim of the session, with its lock's id
	Waiting []uuid.UUID         // every lock of the session that stands among the waiting
}

// GrantRequest asks for a claim on all of the requests, or none.
type GrantRequest struct {
	ID       uuid.UUID // of the lock; made by the caller, for one session, the same in every try
	Owner    Owner     // for display
	Requests []Request // normalized; none are granted at once
	// Wait says that, where it is refused, it is to stand among the waiting
	// from its first refusal on: younger conflicting requests yield to it while
	// its place is reserved, until it is granted, withdrawn, or its session ends
	// or expires. Without
	// Wait a refusal leaves nothing behind, and a place that the lock has stays.
	Wait bool
	// Reserve is how long the place of one that waits is reserved (see the function
	// Reserve): whoever is younger may pass it otherwise.
	Reserve time.Duration
}

// GrantBlocker is what stood in a request's way: one that holds rather than
// one that waits, and the same in every try while nothing changes.
type GrantBlocker struct {
	ID       uuid.UUID // of the lock that holds or waits
	Resource Resource  // of the blocker: the same name, an ancestor, or what lies beneath
	Holder   Owner
	Since    time.Time // when it was granted or began to wait, by the store's clock
	Waiting  bool      // it does not hold: it is older, and waits too
}

// GrantResult answers a GrantRequest: either Token is set, or Blocker is.
type GrantResult struct {
	Token   Token
	Blocker *GrantBlocker
}

// Released is a lock whose session ended without releasing it.
type Released struct {
	ID       uuid.UUID
	Token    Token
	Owner    Owner
	Requests []Request // normalized
}

// MaxGrants is the most locks that one call of Grants may name, and the most
// resources that they may name together.
const MaxGrants = 1000

// Grants is stage 2: it has the last word on who holds what, in every mode. A
// claim stands until it is released or its session is ended or swept. Every
// method may be called concurrently, is all or nothing, and may be called again
// with the same arguments after an error, which may hide that it took effect: it
// then tells the same outcome. Errors wrap ErrUnavailable where the store could
// not be asked, or its reply was lost.
type Grants interface {
	Sessions
	// OpenSession registers the session, live for its TTL from now. It returns
	// ErrSessionLost for the id of one that has ended or expired.
	OpenSession(ctx context.Context, s Session) error
	// Heartbeat extends a session that is neither ended nor expired by its
	// TTL, or returns ErrSessionLost.
	Heartbeat(ctx context.Context, session uuid.UUID) (Beat, error)
	// EndSession ends the session, its claims and its places among the
	// waiting, if there are any.
	EndSession(ctx context.Context, session uuid.UUID) error
	// Grant decides on each request, in the order given, each seeing those
	// granted before it. A request is refused by whatever conflicts (see
	// Conflict) and holds, in whichever session, or has waited longer in a
	// living one; a slotted one also when as many hold slots of the name, or
	// have waited longer for one, as it says that there are. What waits counts
	// while its place is reserved. It returns
	// ErrSessionLost when the session is ended or expired; then nothing was
	// granted. The ids of one call differ.
	Grant(ctx context.Context, session uuid.UUID, requests []GrantRequest) ([]GrantResult, error)
	// Withdraw takes locks of the session out of the waiting, and gives back
	// the claims of those that were granted meanwhile.
	Withdraw(ctx context.Context, session uuid.UUID, ids []uuid.UUID) error
	// Release gives claims back and reports for each whether it stood. One
	// that an earlier call has given back, whose reply was lost, stood no more.
	Release(ctx context.Context, tokens []Token) ([]bool, error)
	// Sweep ends sessions that have expired, and returns the locks that it
	// took back from them. Any replica may call it at any time.
	Sweep(ctx context.Context) ([]Released, error)
}
