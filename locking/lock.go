package locking

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Lock is a set of resources that one owner has locked. Its methods may be called concurrently.
type Lock struct {
	locker   *Locker
	owner    Owner
	since    time.Time
	requests []Request
	session  uuid.UUID // named by its advisory locks; zero without a session

	// Set with Grants, and constant afterwards:
	id          string
	token       Token
	liveSession *liveSession // nil without Grants

	// work is held during a renewal or a release, which wait for the backend. It is
	// a channel, because a bubble of testing/synctest does not advance while a mutex
	// blocks.
	work     chan struct{}
	advisory []held
	released bool
	result   error // of the release

	renewAt time.Time // with index, guarded by Locker.renewals
	index   int

	state sync.Mutex // not held during requests to the backend
	// within is the context of the acquisition. The context of the lock is made at its first use,
	// because a replica uses it for no run.
	within  context.Context
	ctx     context.Context
	cancel  context.CancelCauseFunc
	ended   bool // released or lost
	lost    *LostError
	trusted time.Time   // when the trust in the advisory locks ends; unused with Options.Restore
	expiry  *time.Timer // ends the lock then; nil with Options.Restore
	// Error of the last renewal. While the lock has not ended, Locker.failing counts
	// it.
	failure error
}

// held is one advisory lock of a lock.
type held struct {
	advisoryLock
	taken  bool // another has the key; only with Options.Restore
	absent bool // it was never added; only with Options.Grants
}

// present returns the advisory locks that were added, for removal, and drops the
// nonces of the others.
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
	return &Lock{locker: l, owner: owner, since: since, requests: requests, advisory: advisory,
		work: make(chan struct{}, 1), index: -1, within: ctx}
}

// keep starts the renewals of the lock. It returns false if the trust has ended
// already.
func (k *Lock) keep(sent time.Time) bool {
	k.state.Lock()
	defer k.state.Unlock()
	if k.ended {
		return true // its session was lost meanwhile, and its context has ended
	}
	if len(k.advisory) > 0 && !k.locker.options.Restore {
		k.trusted = k.locker.trust(sent)
		left := time.Until(k.trusted)
		if left <= 0 {
			return false
		}
		k.expiry = time.AfterFunc(left, k.expire)
	}
	k.locker.locks.add(k)
	if len(k.advisory) > 0 {
		k.locker.renewals.add(k, k.firstRenewal(sent))
	}
	return true
}

// firstRenewal returns the time of the first renewal. It is soon if an advisory lock
// is absent, because waiters ask the grants until it exists.
func (k *Lock) firstRenewal(sent time.Time) time.Time {
	for _, e := range k.advisory {
		if e.absent {
			return sent.Add(retryEvery)
		}
	}
	return sent.Add(k.locker.options.Lease / 3)
}

// Context returns a context with the values of the context of the acquisition. When the lock is
// lost, it ends with a *LostError as its cause. When the lock is released, it ends with
// ErrReleased.
func (k *Lock) Context() context.Context {
	k.state.Lock()
	defer k.state.Unlock()
	if k.ctx == nil {
		k.ctx, k.cancel = context.WithCancelCause(context.WithoutCancel(k.within))
		if k.ended {
			k.cancel(k.cause())
		}
	}
	return k.ctx
}

// cause returns the cause with which the context of the lock ends. The caller has locked state.
func (k *Lock) cause() error {
	if k.lost != nil {
		return k.lost
	}
	return ErrReleased
}

// Token returns the fencing token of the lock, or 0 without Options.Grants.
func (k *Lock) Token() Token { return k.token }

// Requests returns the locked requests in normal form.
func (k *Lock) Requests() []Request { return slices.Clone(k.requests) }

// Release releases the claim, and removes the advisory locks that are still the lock's own. It
// ignores the end of ctx, and takes a few seconds at most. Run repeats what fails. Release returns
// a *LostError if a part of the lock was no longer held, or else the errors of the backend. With
// Options.Grants it returns no error about advisory locks. A repeated call returns the same.
func (k *Lock) Release(ctx context.Context) error {
	k.end(nil)
	k.work <- struct{}{} // no renewal adds anything after this
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

// end ends the lock's context because the lock was lost or, with nil, released. It
// returns false if it had ended before.
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
	k.locker.locks.remove(k)
	if k.ctx != nil {
		k.cancel(k.cause())
	}
	return true
}

func (k *Lock) loss() *LostError {
	k.state.Lock()
	defer k.state.Unlock()
	return k.lost
}

// untrusted returns nil while the lock may be relied on right now. After a pause of
// the process its context may still be open.
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

// expire ends the lock when the trust ends, even during a renewal.
func (k *Lock) expire() {
	k.state.Lock()
	early := time.Until(k.trusted) > 0 // renewed while the timer fired
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
