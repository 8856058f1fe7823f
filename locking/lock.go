package locking

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Lock is a set of resources that one owner has locked. Its methods may be
// called concurrently.
type Lock struct {
	locker   *Locker
	owner    Owner
	since    time.Time
	requests []Request
	ctx      context.Context
	cancel   context.CancelCauseFunc
	session  uuid.UUID // its entries name it; zero where there is none

	// Where there are Grants, and then never changed:
	id          string
	token       Token
	liveSession *liveSession // the session; else nil

	// work has room for a renewal or the release, which wait for the backend: no
	// mutex, for which a bubble of testing/synctest would wait for ever.
	work     chan struct{}
	advisory []held
	released bool
	result   error // of the release

	renewAt time.Time // with place guarded by Locker.renewals
	place   int

	state   sync.Mutex // never held while the backend is asked
	ended   bool       // released or lost
	lost    *LostError
	trusted time.Time   // until when the entries are relied on; unused with Options.Restore
	expiry  *time.Timer // ends the lock then; nil with Options.Restore
	// of the last renewal, if it failed; counted in Locker.failing while not ended
	failure error
}

// held is one entry of a lock.
type held struct {
	advisoryLock
	taken  bool // another has the key; only with Options.Restore
	absent bool // it was never there; only with Options.Grants
}

func asHeld(advisory []advisoryLock) []held {
	all := make([]held, 0, len(advisory))
	for _, e := range advisory {
		all = append(all, held{advisoryLock: e})
	}
	return all
}

// present returns those entries that were added, to be removed, and forgets
// the others.
func (l *Locker) present(advisory []held) []advisoryLock {
	all := make([]advisoryLock, 0, len(advisory))
	for _, e := range advisory {
		if e.absent {
			l.nonces.drop(e.nonce)
		} else {
			all = append(all, e.advisoryLock)
		}
	}
	return all
}

func newLock(ctx context.Context, l *Locker, owner Owner, since time.Time, requests []Request,
	advisory []held) *Lock {
	lock := &Lock{locker: l, owner: owner, since: since, requests: requests, advisory: advisory,
		work: make(chan struct{}, 1), place: -1}
	lock.ctx, lock.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return lock
}

// keep has the lock renewed and watched, unless it can't be trusted already.
func (k *Lock) keep(sent time.Time) bool {
	k.state.Lock()
	defer k.state.Unlock()
	if k.ended {
		return true // its session was lost meanwhile, and its context says so
	}
	if len(k.advisory) > 0 && !k.locker.options.Restore {
		k.trusted = k.locker.trust(sent)
		left := time.Until(k.trusted)
		if left <= 0 {
			return false
		}
		k.expiry = time.AfterFunc(left, k.expire)
	}
	k.locker.living.add(k)
	if len(k.advisory) > 0 {
		k.locker.renewals.add(k, k.firstRenewal(sent))
	}
	return true
}

// firstRenewal is soon where an entry is not there yet: until it is, whoever
// waits for the lock asks the grants.
func (k *Lock) firstRenewal(sent time.Time) time.Time {
	for _, e := range k.advisory {
		if e.absent {
			return sent.Add(retryEvery)
		}
	}
	return sent.Add(k.locker.options.Lease / 3)
}

// Context returns a context with the values of the one that the lock was
// acquired with. It ends when the lock is lost, with a *LostError as its cause,
// or when it is released, with ErrReleased.
func (k *Lock) Context() context.Context { return k.ctx }

// Token returns the number of the claim that Options.Grants gave, to be checked
// by whatever the lock's owner writes to; 0 where there are no Grants.
func (k *Lock) Token() Token { return k.token }

// Requests returns what is locked, sorted by key and without repetitions.
func (k *Lock) Requests() []Request { return slices.Clone(k.requests) }

// Release removes the lock's entries, the last first, each only if it is still
// the lock's own. It goes on when ctx has ended, for a few seconds at most; what
// it can't remove then runs out with its lease, or is removed later by Run. It
// returns a *LostError when the lock was no longer held, or in part, and what
// kept it from asking. Releasing again returns the same.
//
// With Options.Grants it gives the claim back first, and what it returns is
// about that alone. A claim that it can't give back now is given back by Run.
func (k *Lock) Release(ctx context.Context) error {
	k.end(nil)
	k.work <- struct{}{} // a renewal that has begun adds nothing after this
	defer func() { <-k.work }()
	if k.released {
		return k.result
	}
	k.released = true
	if k.liveSession != nil {
		k.result = k.releaseClaim(ctx)
	} else {
		k.result = k.locker.removeAll(ctx, k.locker.present(k.advisory))
	}
	if lost := k.loss(); lost != nil {
		k.result = lost
	}
	return k.result
}

// end ends the lock's context, because it was lost or, with nil, released.
// It reports whether it had not ended before.
func (k *Lock) end(lost *LostError) bool {
	k.state.Lock()
	defer k.state.Unlock()
	if k.ended {
		return false
	}
	k.ended, k.lost = true, lost
	if k.failure != nil {
		k.locker.failing.Add(-1)
	}
	if k.expiry != nil {
		k.expiry.Stop()
	}
	k.locker.renewals.remove(k)
	k.locker.living.remove(k)
	if lost != nil {
		k.cancel(lost)
	} else {
		k.cancel(ErrReleased)
	}
	return true
}

func (k *Lock) loss() *LostError {
	k.state.Lock()
	defer k.state.Unlock()
	return k.lost
}

// untrusted returns nil while the lock may be relied on, at this very moment:
// after a pause of the process its context may not have ended yet.
func (k *Lock) untrusted() *LostError {
	k.state.Lock()
	defer k.state.Unlock()
	if k.lost == nil && !time.Now().Before(k.trusted) {
		return &LostError{Reason: LossUnconfirmed, Err: k.failure}
	}
	return k.lost
}

func (k *Lock) over() bool {
	k.state.Lock()
	defer k.state.Unlock()
	return k.ended
}

// expire ends the lock when its trust has, however a renewal is getting on.
func (k *Lock) expire() {
	k.state.Lock()
	early := time.Until(k.trusted) > 0 // it was renewed as the timer went off
	failure := k.failure
	k.state.Unlock()
	if !early {
		k.lose(&LostError{Reason: LossUnconfirmed, Err: failure})
	}
}

func (k *Lock) lose(lost *LostError) {
	if !k.end(lost) {
		return
	}
	k.warn().Err(lost).Msg("lock lost")
	k.locker.emit(Event{Kind: EventLost, Resource: lost.Resource, Owner: k.owner,
		Holder: lost.Holder, Err: lost})
}

// asLost returns the *LostError in err, or nil.
func asLost(err error) *LostError {
	var lost *LostError
	errors.As(err, &lost)
	return lost
}
