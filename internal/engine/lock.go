package engine

import (
	"context"
	"errors"
	"time"

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
}

// known returns what blocks the firing as of the last look at the locks, or nil if the firing must
// try to lock. It sends no request.
func (l advisoryLocks) known(f *firing, before *refusal) *refusal {
	if l.locker == nil || l.held.none() {
		return nil
	}
	if held := l.held.blocker(f.run.String(), f.entry.requests); held != nil {
		return refusedBy(held, f, before)
	}
	return nil
}

// take takes the advisory locks, or returns what blocks them. If memcached is not used or does not
// answer, there is no lock and the store decides. before is what blocked the firing at its last
// try, or nil.
func (l advisoryLocks) take(ctx context.Context, f *firing,
	before *refusal) (*locking.Lock, *refusal) {
	start := f.spans.now()
	lock, found := l.tryAll(ctx, f, before)
	f.spans.locked(start, found)
	return lock, found
}

// tryAll is take without its span. Nothing may start while this machine's clock is off by more than
// its limit, or while the database of the job is not available.
func (l advisoryLocks) tryAll(ctx context.Context, f *firing,
	before *refusal) (*locking.Lock, *refusal) {
	if err := l.clockLimit.check(time.Now()); err != nil {
		return nil, &refusal{reason: reasons.ClockOff, detail: err.Error()}
	}
	if err := l.databases.available(f.entry.Database); err != nil {
		return nil, &refusal{reason: reasons.DatabaseUnavailable, detail: err.Error()}
	}
	if l.locker == nil {
		return nil, nil
	}
	if before != nil && before.granted && l.stillHeld(ctx, before.blocker) {
		return nil, before
	}
	owner, sent := l.owner(f), time.Now()
	lock, err := l.locker.TryAcquireIn(ctx, f.session.ID, owner, f.entry.requests)
	var held *locking.HeldError
	switch {
	case err == nil:
		return lock, nil
	case errors.As(err, &held):
		l.held.met(held.Resource, held.Holder.Owner, sent)
		return nil, refusedBy(held, f, before)
	case l.skipUnavailable:
		return nil, &refusal{reason: reasons.LocksUnavailable, detail: err.Error()}
	default:
		return nil, nil
	}
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
	return &refusal{reason: reason,
		blocker: &jobs.Blocker{Resource: held.Resource.String(), Holder: held.Holder.Owner}}
}

// stillHeld reports whether memcached still has the lock of the blocker that the store named. This
// keeps polling away from the store. If memcached does not answer, the store is asked again.
func (l advisoryLocks) stillHeld(ctx context.Context, b *jobs.Blocker) bool {
	if b == nil {
		return false
	}
	resource, err := locking.ParseDisplay(b.Resource)
	if err != nil {
		return false
	}
	holders, err := l.locker.Inspect(ctx, []locking.Resource{resource})
	return err == nil && b.Holder.Run != "" && holders[resource].Run == b.Holder.Run
}

// release releases the advisory locks of the firing, if it has them. A lock that cannot be released
// expires.
func release(f *firing, lock *locking.Lock) {
	if lock == nil {
		return
	}
	if err := lock.Release(context.WithoutCancel(f.session.Context())); err != nil {
		f.log.Debug().Err(err).Msg("release advisory locks failed, they expire")
	}
}
