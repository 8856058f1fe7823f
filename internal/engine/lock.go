package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/locking"
)

// advisoryLocks passes the gates of firings and takes their advisory locks.
type advisoryLocks struct {
	replica    string
	locker     *locking.Locker // nil without memcached
	clockLimit *clockLimit
	// if memcached cannot be asked: skip the firing instead of leaving it to the store
	skipUnavailable bool
	databases       Databases
	held            *heldLocks
	lookout         *lookout
}

// known returns what blocks the firing as of the last look at the locks, or nil if the firing must
// try to lock. It sends no request.
func (l advisoryLocks) known(f *firing, before *refusal) *refusal {
	if l.locker == nil || f.first.tried || l.held.none() {
		return nil
	}
	lock, isKnown := l.held.blocker(f.position(), f.entry.requests)
	if !isKnown {
		return nil
	}
	if lock.queue != nil {
		return behind(lock.queue, f, before)
	}
	return refusedBy(&locking.HeldError{Resource: lock.resource,
		Holder: locking.Holder{Owner: lock.holder}}, f, before)
}

// refused notes that the store refused the firing, as the answer to a start that was sent at that
// time.
func (l advisoryLocks) refused(f *firing, b *refusal, sent time.Time) {
	if l.locker != nil && b.blocker != nil &&
		(b.reason == reasons.LockHeld || b.reason == reasons.OlderWaiter) {
		l.held.refused(b, f.position(), sent)
	}
}

// take takes the advisory locks, or returns what blocks them. If memcached is not used or does not
// answer, there is no lock and the store decides. before is what blocked the firing at its last
// try, or nil.
func (l advisoryLocks) take(ctx context.Context, f *firing,
	before *refusal) (*locking.Lock, *refusal) {
	if f.first.tried {
		return f.first.take()
	}
	f.unlocked, f.met = false, locking.Owner{}
	start := f.spans.now()
	lock, found := l.tryAll(ctx, f, before)
	f.spans.locked(start, found)
	return lock, found
}

// tryAll is take without its span. Nothing may start while this machine's clock is off by more than
// its limit, or while the database of the job is not available.
func (l advisoryLocks) tryAll(ctx context.Context, f *firing,
	before *refusal) (*locking.Lock, *refusal) {
	if found := l.unavailable(f); found != nil || l.locker == nil {
		return nil, found
	}
	if before != nil && before.granted && l.stillHeld(ctx, before.blocker) {
		return nil, before
	}
	sent := time.Now()
	lock, err := l.locker.TryAcquireIn(ctx, f.session.ID, l.owner(f), f.entry.requests)
	return l.result(f, before, lock, err, sent)
}

// unavailable returns a reason for which the firing may not start now and that does not depend on
// its locks, or nil.
func (l advisoryLocks) unavailable(f *firing) *refusal {
	if err := l.clockLimit.check(time.Now()); err != nil {
		return &refusal{reason: reasons.ClockOff, detail: err.Error()}
	}
	if err := l.databases.available(f.entry.Database); err != nil {
		return &refusal{reason: reasons.DatabaseUnavailable, detail: err.Error()}
	}
	return nil
}

// result converts the result of a try, sent at that time, into the results of take.
func (l advisoryLocks) result(f *firing, before *refusal, lock *locking.Lock, err error,
	sent time.Time) (*locking.Lock, *refusal) {
	var held *locking.HeldError
	switch {
	case err == nil:
		return lock, nil
	case errors.As(err, &held):
		l.held.met(held.Resource, held.Holder.Owner, sent)
		found := refusedBy(held, f, before)
		if found == nil {
			f.unlocked, f.met = true, held.Holder.Owner
		}
		return nil, found
	case l.skipUnavailable:
		return nil, &refusal{reason: reasons.LocksUnavailable, detail: err.Error()}
	default:
		return nil, nil
	}
}

// takeLate takes the advisory locks of an attempt that the store has started without them, because
// an earlier run of its job had them when it asked. Without them, other firings would ask the store
// again and again while the run lasts. While another firing has a lock, takeLate tries again. ctx
// is that of the attempt. If its claim is lost, takeLate releases the locks at once. The caller
// must call end, which releases them otherwise.
func (l advisoryLocks) takeLate(ctx context.Context, f *firing) (end func()) {
	tries, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	var lock *locking.Lock
	go func() {
		defer close(done)
		if lock = l.retryLate(tries, f); lock != nil {
			l.granted(f)
			context.AfterFunc(ctx, func() {
				if errors.Is(context.Cause(ctx), jobs.ErrClaimLost) {
					release(f, lock)
				}
			})
		}
	}()
	return func() {
		cancel()
		<-done
		release(f, lock)
	}
}

// retryLate tries to lock until it has the locks or ctx ends. It returns nil in the latter case.
func (l advisoryLocks) retryLate(ctx context.Context, f *firing) *locking.Lock {
	for delay := lookMin; ctx.Err() == nil; delay = min(2*delay, noteAfter) {
		lock, err := l.locker.TryAcquireIn(ctx, f.session.ID, l.owner(f), f.entry.requests)
		if err == nil {
			return lock
		}
		_ = sleep.For(ctx, delay)
	}
	return nil
}

// granted notes that the firing holds its locks.
func (l advisoryLocks) granted(f *firing) {
	if !l.held.none() {
		l.held.granted(f.entry.requests, l.owner(f), time.Now())
	}
}

func (l advisoryLocks) owner(f *firing) locking.Owner {
	return locking.Owner{Replica: l.replica, Job: f.entry.Name, Run: f.run.String()}
}

// refusedBy returns the refusal for a held lock, or nil if only the store can decide.
func refusedBy(held *locking.HeldError, f *firing, before *refusal) *refusal {
	reason := reasons.LockHeld
	if held.Holder.Job == f.entry.Name {
		reason = reasons.Overlap
		if f.entry.Overlap == jobs.OverlapSkip || before == nil || before.reason != reason {
			// The holder may be this firing on another replica, or another firing may wait already.
			// The store knows.
			return nil
		}
	} else if before == nil && f.hasNoNextTime() {
		// only the store knows whether an earlier firing of the job waits already
		return nil
	}
	resource := held.Resource.String()
	if before != nil && !before.granted && before.reason == reason && before.names(resource) &&
		before.blocker.Holder == held.Holder.Owner {
		return before // most waiters poll a lock many times
	}
	return &refusal{reason: reason,
		blocker: &jobs.Blocker{Resource: resource, Holder: held.Holder.Owner}}
}

// behind returns the refusal for a waiter that is ahead of the firing, or nil if only the store can
// decide.
func behind(waiter *jobs.Blocker, f *firing, before *refusal) *refusal {
	switch {
	case waiter.Holder.Job == f.entry.Name, before == nil && f.hasNoNextTime():
		return nil
	case before != nil && before.blocker == waiter && !before.granted:
		return before
	}
	return &refusal{reason: reasons.OlderWaiter, blocker: waiter}
}

// stillHeld reports whether memcached still has the lock of the blocker that the store named. This
// keeps polling away from the store. If memcached does not answer, the store is asked again. The
// lock is noted as held, because its release may come before the firing waits for it.
func (l advisoryLocks) stillHeld(ctx context.Context, b *jobs.Blocker) bool {
	if b == nil {
		return false
	}
	resource, err := locking.ParseDisplay(b.Resource)
	if err != nil {
		return false
	}
	sent := time.Now()
	holders, err := l.locker.Inspect(ctx, []locking.Resource{resource})
	if err != nil || b.Holder.Run == "" || holders[resource].Run != b.Holder.Run {
		return false
	}
	l.held.met(resource, holders[resource].Owner, sent)
	return true
}

// release releases the advisory locks of the firing, if it has them. A lock that cannot be released
// expires.
func release(f *firing, lock *locking.Lock) {
	if lock == nil {
		return
	}
	if err := lock.Release(context.WithoutCancel(f.session.Context())); err != nil {
		f.debug().Err(err).Msg("release advisory locks failed, they expire")
	}
}
