package locking

import (
	"bytes"
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
	// how much earlier than asked an item may vanish: measured on memcached 1.6.18
	trustMargin = 2 * time.Second
	addTries    = 4 // of one key, where it vanishes while it is looked at, or replies are lost
)

// Options are what a Locker needs besides its backend.
type Options struct {
	Namespace string        // the cluster's id: begins every key; 1 to 100 bytes without spaces
	Lease     time.Duration // 10 s to 24 h, cut to whole seconds
	// Restore says that a second stage decides who may act. Then only what
	// adds quickly is taken here, and an entry that vanished is added again
	// and reported as an event, rather than ending the lock.
	Restore bool
	// Grants, if set, is the second stage, asked by this Locker itself: every
	// mode and the hierarchy are enforced, each lock has a token, and all
	// locks live and die with one session, which Run keeps. It implies Restore.
	// Without it Restore leaves the second stage to the caller.
	Grants Grants
	// Sessions, if set, tells which sessions are alive, for locks of TryAcquireIn:
	// their entries are removed when they are met and their session is dead. Where
	// there are Grants these tell it, and Sessions is not used.
	Sessions Sessions
	// Session names this replica to Grants. Its ID is drawn anew for each
	// session, and only the first one Succeeds. TTL is 1 s to 24 h, 0 means
	// 15 s; heartbeats go out at a third of it.
	Session Session
	// Reserve is how long a lock that waits for Grants reserves its place before
	// younger requests: 0 means DefaultReserve, NeverReserve never. See the function
	// Reserve for what becomes of it then.
	Reserve time.Duration
	Log     zerolog.Logger
	// OnEvent, if set, is called for each event, from several goroutines,
	// which wait for it: it must return soon and not release locks.
	OnEvent func(Event)
}

// Locker takes locks on a backend and keeps them. Its methods may be called
// concurrently. Locks are renewed only while Run runs.
type Locker struct {
	backend Backend
	options Options

	nonces   *nonces
	strays   strays
	owners   *owners
	breakers breaker.Servers // of stage 1, where a second stage decides
	renewals renewals
	failing  atomic.Int64 // locks whose last renewal failed
	living   livingLocks

	// Where there are Grants:
	keeper   *session.Keeper[*sessionLocks] // else nil
	releases *batch.Batch[Token, bool]
}

// New returns a Locker on b, or says which option is wrong. Where there are
// Grants b may be nil: they are then asked by themselves, Namespace and Lease
// mean nothing, and each try of a lock that waits asks them.
func New(b Backend, o Options) (*Locker, error) {
	if b == nil && o.Grants == nil {
		return nil, errors.New("a locker needs a backend, or grants")
	}
	if b == nil {
		b, o.Lease = noBackend{}, maxLease
	} else if err := o.checkEntries(); err != nil {
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

func (o *Options) checkEntries() error {
	if err := checkNamespace(o.Namespace); err != nil {
		return err
	}
	if o.Lease < minLease || o.Lease > maxLease {
		return fmt.Errorf("lease: found %s, expected %s to %s", o.Lease, minLease, maxLease)
	}
	return nil
}

// TryAcquire locks all requests, or none, and never waits for a holder. It
// returns
//   - a *HeldError (ErrHeld) when one is held,
//   - an error that wraps ErrUnavailable when the backend could not be asked,
//   - one that wraps ErrUnclear when replies were lost, so that entries may be
//     left behind, which Run removes,
//   - an *UnsupportedError, ErrFull, or an error about the requests themselves:
//     a *RequestError or ErrBadName.
//
// With Options.Restore, requests that are not exclusive, and jobs' own names,
// are part of the lock without an entry here. The lock outlives ctx.
//
// With Options.Grants a *HeldError may also be about a lock that only waits, and
// has waited longer. What keeps the backend from answering is no error then: the
// grants decide alone. It is ErrUnavailable when the grants could not be asked,
// and ErrNoSession when there is no session now, or ErrSessionLost when it was
// lost meanwhile.
func (l *Locker) TryAcquire(ctx context.Context, owner Owner, requests []Request) (*Lock, error) {
	normalized, err := Normalize(requests)
	if err != nil {
		return nil, err
	}
	if l.keeper == nil {
		return l.tryAlone(ctx, uuid.Nil, owner, normalized)
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

// TryAcquireIn is TryAcquire for a Locker without Grants whose caller has a second
// stage of its own, in a session of that. Once Options.Sessions says that the
// session is dead, any replica may remove the lock's entries.
func (l *Locker) TryAcquireIn(ctx context.Context, session uuid.UUID, owner Owner,
	requests []Request) (*Lock, error) {
	normalized, err := Normalize(requests)
	if err != nil {
		return nil, err
	}
	return l.tryAlone(ctx, session, owner, normalized)
}

// tryAlone is TryAcquire without Grants.
func (l *Locker) tryAlone(ctx context.Context, session uuid.UUID, owner Owner,
	normalized []Request) (*Lock, error) {
	resources, err := l.advisoryResources(normalized)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	sent := time.Now() // the lease counts from here, before the first request
	advisory, err := l.addAll(ctx,
		content{Holder: Holder{Owner: owner, Since: sent.UTC()}, Session: session}, resources)
	if err != nil {
		return nil, err
	}
	lock := newLock(ctx, l, owner, sent, normalized, asHeld(advisory))
	lock.session = session
	if !lock.keep(sent) {
		lock.end(nil)
		l.undo(ctx, advisory)
		return nil, fmt.Errorf("lock of %d resources took longer than its lease: %w", len(advisory),
			ErrUnavailable)
	}
	return lock, nil
}

// advisoryResources returns the resources that get an entry here.
func (l *Locker) advisoryResources(requests []Request) ([]Resource, error) {
	if l.backend == (noBackend{}) {
		return nil, nil
	}
	resources := make([]Resource, 0, len(requests))
	for _, r := range requests {
		switch {
		case r.Mode == Exclusive && (r.Resource.Kind() != KindJob || !l.options.Restore):
			resources = append(resources, r.Resource)
		case !l.options.Restore:
			return nil, &UnsupportedError{Request: r}
		}
	}
	return resources, nil
}

// addAll adds an entry for each resource, in order, or leaves none.
func (l *Locker) addAll(ctx context.Context, as content, resources []Resource) ([]advisoryLock, error) {
	for _, resource := range resources { // or what another server has would be taken for nothing
		if err := l.checkServer(keyOf(l.options.Namespace, resource.Key())); err != nil {
			return nil, fmt.Errorf("lock of %s: %w", resource, err)
		}
	}
	advisory := make([]advisoryLock, 0, len(resources))
	for _, resource := range resources {
		added, err := l.addOne(ctx, as, resource)
		if err != nil {
			l.undo(ctx, advisory)
			return nil, err
		}
		advisory = append(advisory, added)
	}
	return advisory, nil
}

// undo removes what an attempt added before it failed. What can't be removed
// now becomes a stray, so there is nothing to report to the caller.
func (l *Locker) undo(ctx context.Context, advisory []advisoryLock) {
	if len(advisory) == 0 {
		return
	}
	if err := l.removeAll(ctx, advisory); err != nil {
		l.options.Log.Debug().Err(err).Msg("locks of a failed attempt were not all removed")
	}
}

// add takes one resource's key, or says why not.
func (l *Locker) add(ctx context.Context, as content, resource Resource) (advisoryLock, error) {
	var err error
	for range addTries {
		var e advisoryLock
		if e, err = l.newAdvisory(as, resource); err != nil {
			return advisoryLock{}, err
		}
		if err = l.backend.Add(ctx, e.key, e.value, l.options.Lease); err == nil {
			return e, nil
		}
		var again bool
		if again, err = l.judge(ctx, e, err); err == nil {
			return e, nil
		}
		if !again {
			return advisoryLock{}, err
		}
	}
	return advisoryLock{}, err
}

// judge looks at why an add failed. It returns nil if the entry is there after
// all, and otherwise the answer, and whether it is worth another attempt.
func (l *Locker) judge(ctx context.Context, e advisoryLock, addErr error) (again bool, err error) {
	unclear := errors.Is(addErr, ErrUnclear)
	if !unclear && !errors.Is(addErr, ErrNotStored) {
		l.nonces.drop(e.nonce)
		return false, fmt.Errorf("lock of %s: %w", e.resource, addErr)
	}
	found, lookErr := l.backend.Get(ctx, e.key)
	value, exists := found[e.key]
	if unclear && exists && bytes.Equal(value, e.value) {
		return false, nil
	}
	l.giveUp(e, unclear)
	switch {
	case lookErr != nil && unclear:
		return false, fmt.Errorf("lock of %s: %w", e.resource, addErr)
	case lookErr != nil:
		return false, &HeldError{Resource: e.resource}
	case !exists && unclear:
		return true, fmt.Errorf("lock of %s: %w", e.resource, addErr)
	case !exists:
		return true, &HeldError{Resource: e.resource}
	}
	held, orphan := l.read(e.resource, value)
	if orphan {
		return l.removeOrphan(ctx, e.key, value), &HeldError{Resource: e.resource, Holder: held}
	}
	return false, &HeldError{Resource: e.resource, Holder: held}
}

// read says who holds an entry, and whether it belongs to nothing any more.
func (l *Locker) read(resource Resource, value []byte) (held Holder, orphan bool) {
	c, ok := decode(value, resource.Key())
	if !ok {
		return Holder{}, false
	}
	return c.Holder, l.isOrphan(c)
}

// isOrphan reports whether an entry belongs to nothing any more: it is a stray of
// this Locker, or its owner's session is dead.
func (l *Locker) isOrphan(c content) bool {
	return l.nonces.isStray(c.Nonce) || l.owners.isDead(c.Session)
}

// newAdvisory returns what to store for one attempt at one resource.
func (l *Locker) newAdvisory(as content, resource Resource) (advisoryLock, error) {
	name := resource.Key()
	e := advisoryLock{resource: resource, key: keyOf(l.options.Namespace, name), nonce: l.nonces.draw()}
	as.Nonce, as.Resource = e.nonce, name
	var err error
	e.value, err = as.encode()
	return e, err
}

// giveUp says that an attempt's entry belongs to nothing any more; one that may
// be there, or may still come, is looked for later.
func (l *Locker) giveUp(e advisoryLock, maybeThere bool) {
	l.nonces.drop(e.nonce)
	if maybeThere {
		l.strays.note(e, time.Now().Add(l.options.Lease))
		l.renewals.news()
	}
}

// trust returns until when an entry is relied on whose request was sent then.
func (l *Locker) trust(sent time.Time) time.Time { return sent.Add(l.options.Lease - trustMargin) }

func (l *Locker) emit(e Event) {
	if l.options.OnEvent != nil {
		l.options.OnEvent(e)
	}
}
