package locking

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
)

// retryEvery is the delay before the retry of a failed renewal.
const retryEvery = time.Second

// renew renews the lease of the lock's advisory locks. It adds nothing after the
// lock has ended. If a server does not reply, renew skips the other names on this
// server, because the other locks wait for this worker.
func (k *Lock) renew(run context.Context) {
	k.work <- struct{}{}
	defer func() { <-k.work }()
	start := time.Now()
	ctx, cancel := context.WithDeadline(run, k.deadline(start))
	defer cancel()
	var failure error
	silent := map[string]bool{} // servers that failed in this pass
	for i := range k.advisory {
		if k.over() {
			return
		}
		server := k.locker.backend.Server(k.advisory[i].key)
		if silent[server] {
			continue
		}
		err := k.renewAdvisory(ctx, &k.advisory[i])
		if lost := asLost(err); lost != nil {
			k.lose(lost)
			return
		}
		if err != nil {
			failure, silent[server] = err, failed(err)
		}
	}
	if run.Err() == nil {
		k.renewed(start, failure)
	}
}

// deadline returns the deadline of a renewal. A renewal after the end of the trust
// is useless.
func (k *Lock) deadline(start time.Time) time.Time {
	if k.locker.options.Restore {
		return start.Add(k.locker.options.Lease / 3)
	}
	k.state.Lock()
	defer k.state.Unlock()
	return k.trusted
}

// renewed extends the trust or records the failure, and sets the time of the next
// renewal.
func (k *Lock) renewed(start time.Time, failure error) {
	k.state.Lock()
	defer k.state.Unlock()
	if k.ended {
		return
	}
	k.noteFailure(failure)
	next := start.Add(k.locker.options.Lease / 3)
	switch {
	case failure != nil:
		next = time.Now().Add(retryEvery)
	case k.expiry != nil:
		k.trusted = k.locker.trust(start)
		k.expiry.Reset(time.Until(k.trusted))
	}
	k.locker.renewals.add(k, next)
}

// noteFailure logs when renewals begin to fail, and when all succeed again.
func (k *Lock) noteFailure(failure error) {
	l := k.locker
	switch {
	case failure != nil && k.failure == nil:
		if l.failing.Add(1) == 1 {
			k.warn().Err(failure).Msg("lock renewal failed, repeats are not logged")
		}
	case failure == nil && k.failure != nil:
		if l.failing.Add(-1) == 0 {
			l.options.Log.Info().Msg("lock renewal recovered")
		}
	}
	k.failure = failure
}

// renewAdvisory returns nil, a *LostError, or the error of the renewal.
func (k *Lock) renewAdvisory(ctx context.Context, e *held) error {
	if e.absent {
		return k.restore(ctx, e)
	}
	e.version = Version{} // the renewal changes it
	err := k.locker.backend.Renew(ctx, e.key, e.value, k.locker.options.Lease)
	switch {
	case err == nil:
		e.taken = false
		return nil
	case errors.Is(err, ErrMissing) && !k.locker.options.Restore:
		return &LostError{Resource: e.resource, Reason: LossVanished}
	case errors.Is(err, ErrNotOwner) && !k.locker.options.Restore:
		return &LostError{Resource: e.resource, Reason: LossTaken,
			Holder: k.locker.holderOf(ctx, e.resource)}
	case errors.Is(err, ErrMissing), errors.Is(err, ErrNotOwner):
		return k.restore(ctx, e)
	}
	return err
}

// restore adds an advisory lock that vanished, with a new nonce. It leaves another
// lock's key alone until the next renewal.
func (k *Lock) restore(ctx context.Context, e *held) error {
	as := content{Holder: Holder{Owner: k.owner, Since: k.since.UTC()}, Lock: k.id,
		Session: k.session}
	added := k.locker.addEach(ctx, as, []advisoryLock{e.advisoryLock})[0]
	var taken *HeldError
	if errors.As(added.err, &taken) {
		if !e.taken {
			e.taken = true
			k.warn().Stringer("resource", e.resource).Stringer("holder", taken.Holder).
				Msg("advisory lock taken by another owner")
			k.locker.emit(Event{Kind: EventTaken, Resource: e.resource, Owner: k.owner,
				Holder: taken.Holder})
		}
		return nil
	}
	if added.err != nil {
		return added.err
	}
	k.locker.nonces.drop(e.nonce)
	absent := e.absent
	*e = held{advisoryLock: added.advisoryLock}
	if absent {
		return nil
	}
	k.warn().Stringer("resource", e.resource).Msg("vanished advisory lock added again")
	k.locker.emit(Event{Kind: EventRestored, Resource: e.resource, Owner: k.owner})
	return nil
}

// warn begins a log line about this lock.
func (k *Lock) warn() *zerolog.Event {
	return k.locker.options.Log.Warn().Str("job", k.owner.Job).Str("run", k.owner.Run)
}
