package locking

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/batch"
	"github.com/holdfast-dev/holdfast/internal/breaker"
	"github.com/holdfast-dev/holdfast/internal/session"
)

const (
	minLease = 10 * time.Second
	maxLease = 24 * time.Hour
	// An item may vanish that much early, as measured on memcached 1.6.18.
	trustMargin = 2 * time.Second
	addTries    = 4 // of one key, when it vanishes between requests or replies are lost
)

// Options configure a Locker.
type Options struct {
	Namespace string        // the cluster's id, first in every key; 1 to 100 bytes without spaces
	Lease     time.Duration // 10 s to 24 h, cut to whole seconds
	// Restore says that the caller's store decides which run may commit. The Locker adds a vanished
	// advisory lock again and reports an event.
	Restore bool
	// Grants, if set, decides on each lock. Each lock then has a token and belongs to one session,
	// which Run keeps open. Grants implies Restore.
	Grants Grants
	// Sessions, if set, reports which sessions are alive, for locks of TryAcquireIn. With Grants,
	// this field is ignored.
	Sessions Sessions
	// Session names this replica to Grants. Each session gets a new ID. ReplaceEarlier applies only
	// to the first one. TTL is 1 s to 24 h, and 0 means 15 s.
	Session Session
	// Reserve is the argument reserve of the function Reserve. 0 means DefaultReserve, and
	// NeverReserve means no reservation.
	Reserve time.Duration
	Log     zerolog.Logger
	// OnEvent, if set, is called for each event, from several goroutines. It must return soon and
	// must not release locks.
	OnEvent func(Event)
}

// Locker takes locks, and renews them while Run runs. Its methods may be called concurrently.
type Locker struct {
	backend Backend
	options Options

	nonces   *nonces
	decoded  decodedValues
	strays   strays
	owners   *owners
	breakers breaker.Servers // of the backend, used with Options.Restore
	renewals renewals
	failing  atomic.Int64 // locks with a failed last renewal
	locks    liveLocks

	// Set with Grants:
	keeper   *session.Keeper[*sessionLocks] // nil without Grants
	releases *batch.Batch[Token, ReleaseResult]
	swept    swept
}

// New returns a Locker on b, or an error for each wrong option. With Grants, b may be nil. Then
// there are no advisory locks, and Namespace and Lease are ignored.
func New(b Backend, o Options) (*Locker, error) {
	if b == nil && o.Grants == nil {
		return nil, errors.New("a locker needs a backend or grants")
	}
	if b == nil {
		b, o.Lease = noBackend{}, maxLease
	} else if err := o.checkAdvisory(); err != nil {
		return nil, err
	}
	o.Lease = wholeSeconds(o.Lease)
	l := &Locker{backend: b, nonces: newNonces(), renewals: newRenewals()}
	if o.Grants != nil {
		if err := o.checkSession(); err != nil {
			return nil, err
		}
		o.Restore, o.Sessions = true, o.Grants
		l.releases = newReleases(o.Grants)
	}
	l.options, l.owners = o, newOwners(o.Sessions)
	if o.Grants != nil {
		l.keeper = l.newKeeper()
	}
	return l, nil
}

func (o *Options) checkAdvisory() error {
	if err := checkNamespace(o.Namespace); err != nil {
		return err
	}
	if o.Lease < minLease || o.Lease > maxLease {
		return fmt.Errorf("lease: found %s, expected %s to %s", o.Lease, minLease, maxLease)
	}
	return nil
}

// TryAcquire locks all requests, or none. It never waits for a holder. The end of ctx does not end
// the lock. Without requests, it returns a lock that excludes no other lock. With Options.Grants,
// such a lock still has a token and needs a session. TryAcquire returns one of these errors:
//   - a *HeldError if a resource is held or, with Options.Grants, an older waiter wants it
//   - a *RequestError or ErrBadName if Normalize refuses the requests
//   - an *UnsupportedError
//   - ErrUnavailable, ErrUnclear, ErrFull or ErrTooLarge if the backend failed. Run removes
//     advisory locks that may be left behind.
//
// With Options.Grants, failures of the backend are not errors, because the grants decide.
// TryAcquire then returns ErrUnavailable if the grants cannot be reached. It returns ErrNoSession
// if there is no session, and ErrSessionLost if the session was lost meanwhile.
func (l *Locker) TryAcquire(ctx context.Context, owner Owner, requests []Request) (*Lock, error) {
	if l.keeper == nil {
		return l.TryAcquireIn(ctx, uuid.Nil, owner, requests)
	}
	normalized, err := Normalize(requests)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	a, err := l.newAttempt(owner, normalized)
	if err != nil {
		return nil, err
	}
	defer a.end(ctx)
	return a.try(ctx)
}

// TryAcquireIn is TryAcquire for a Locker without Grants whose caller has a session in its own
// store. If Options.Sessions reports the session dead, any replica may remove the advisory locks. A
// Locker with Grants returns an error.
func (l *Locker) TryAcquireIn(ctx context.Context, session uuid.UUID, owner Owner,
	requests []Request) (*Lock, error) {
	t, err := l.newNormalTry(ctx, session, Wanted{owner, requests})
	if err != nil {
		return nil, err
	}
	return t.alone(ctx)
}

// giveUp marks an attempt's advisory lock as a stray. With maybeThere it may exist,
// or may still arrive, and Run looks for it.
func (l *Locker) giveUp(e advisoryLock, maybeThere bool) {
	l.nonces.drop(e.nonce)
	if maybeThere {
		l.strays.note(e, time.Now().Add(l.options.Lease))
		l.renewals.news()
	}
}

// trust returns the end of the trust in an advisory lock whose request was sent at
// that time.
func (l *Locker) trust(sent time.Time) time.Time { return sent.Add(l.options.Lease - trustMargin) }

func (l *Locker) emit(e Event) {
	if l.options.OnEvent != nil {
		l.options.OnEvent(e)
	}
}
