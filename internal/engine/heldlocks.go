package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// A lock that has been held for a time is looked at again after 1/lookShare of this time. So a
	// released lock is found after a fortieth of the time on average.
	lookShare   = 20
	lookMin     = 20 * time.Millisecond
	lookPause   = 10 * time.Millisecond // between requests
	lookTimeout = 200 * time.Millisecond
	lookBackoff = time.Second // after a failed request
	// lookLate is how late a look may be before firings ask memcached themselves again.
	lookLate = 50 * time.Millisecond
)

// heldLocks is what this replica knows of the advisory locks that its firings wait for. It reads
// all of them with one request, wakes the first waiting firing of a lock that is free, and answers
// the tries of the others. So the number of waiting firings costs nothing in memcached. It may be
// used concurrently.
//
// It also knows which locks a waiter of any replica should take first, because the store has
// refused another firing for its sake.
//
// It only saves requests and time. For a lock that is not known here, a firing asks memcached.
type heldLocks struct {
	locker    *locking.Locker // nil without memcached: then no lock is known
	handover  *handover
	intervals *pollIntervals
	log       zerolog.Logger

	blocked atomic.Int64 // firings that wait, or try again after a wait

	mu    sync.Mutex
	known map[string]*heldLock // by resource, in its display form
	added chan struct{}        // holds a value when a lock was added
}

// heldLock is an advisory lock at the last look.
type heldLock struct {
	resource locking.Resource
	holder   locking.Owner
	run      uuid.UUID // of the holder; zero if it is not a run
	own      bool      // the holder is a run of this replica, which tells when it releases the lock
	since    time.Time // when this replica first met the holder
	readAt   time.Time // when the last request was sent that showed it
	next     time.Time // the next look
	// queue is set if the holder only waits, ahead of the firings at this position and behind it
	queue    *jobs.Blocker
	position position
	unlocked bool // the holder has no advisory lock, so a look cannot show its end
	// free is set from the release by this replica, or from a look that found no holder, to the
	// next holder. The first waiting firing was woken then. The next looks are for firings that met
	// the holder but did not wait for the lock yet, and for those behind a firing that was woken in
	// vain.
	free       bool
	releasedAt time.Time // when this replica last released the lock; zero if it did not
}

func newHeldLocks(locker *locking.Locker, h *handover, intervals *pollIntervals,
	log zerolog.Logger) *heldLocks {
	return &heldLocks{locker: locker, handover: h, intervals: intervals, log: log,
		known: map[string]*heldLock{}, added: make(chan struct{}, 1)}
}

// none reports whether no lock is known, so that most firings need not format their ids.
func (h *heldLocks) none() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.known) == 0
}

// met notes the holder of an advisory lock, as the answer to a request that was sent at that time.
func (h *heldLocks) met(resource locking.Resource, holder locking.Owner, sent time.Time) {
	if holder.Run == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	name := resource.String()
	lock := h.known[name]
	switch {
	case lock == nil:
		lock = &heldLock{resource: resource}
		h.known[name] = lock
		h.update(lock, holder, sent)
		signal(h.added)
	case lock.readAt.Before(sent):
		h.update(lock, holder, sent)
	}
}

// update notes the holder that a request has shown. The caller has locked mu.
func (h *heldLocks) update(lock *heldLock, holder locking.Owner, sent time.Time) {
	if lock.holder.Run != holder.Run {
		lock.holder, lock.since, lock.own = holder, sent, false
		lock.run, _ = uuid.Parse(holder.Run) // a lock of another program has no run
	}
	lock.readAt, lock.queue, lock.unlocked, lock.free = sent, nil, false, false
	interval := h.intervals.locks
	if !lock.own {
		interval = min(max(sent.Sub(lock.since)/lookShare, lookMin), interval)
	}
	lock.next = sent.Add(interval)
}

// refused notes why the store has refused the firing at this position although no advisory lock
// was in its way: another run has the resource without its advisory lock, or a waiter is ahead of
// the firing. Until the next look, the firings that the store would refuse for the same reason do
// not lock. Otherwise their advisory locks would stop that waiter again and again.
//
// sent is when the start was sent. If this replica has released the lock since, the refusal is out
// of date, and the next look wakes the first waiting firing. Without it, a firing that did not wait
// at the release would miss it.
func (h *heldLocks) refused(b *refusal, p position, sent time.Time) {
	resource, err := locking.ParseDisplay(b.blocker.Resource)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	lock := h.known[b.blocker.Resource]
	switch {
	case lock == nil:
		lock = &heldLock{resource: resource}
		h.known[b.blocker.Resource] = lock
	case !lock.releasedAt.Before(sent):
		return
	}
	now := time.Now()
	h.update(lock, b.blocker.Holder, now)
	lock.next = now.Add(h.intervals.locks)
	if b.reason == reasons.OlderWaiter {
		lock.queue, lock.position = b.blocker, p
	} else {
		lock.unlocked = true
	}
	signal(h.added)
}

// granted notes that a run of this replica holds the requests.
func (h *heldLocks) granted(requests []locking.Request, holder locking.Owner, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range requests {
		if lock := h.known[r.Resource.String()]; lock != nil {
			h.update(lock, holder, at)
			lock.own, lock.next = true, at.Add(h.intervals.locks)
		}
	}
}

// released notes that this replica has released the locks of the requests. While firings wait, it
// notes unknown locks too, because a firing may be trying one of them.
func (h *heldLocks) released(requests []locking.Request) {
	blocked := h.locker != nil && h.blocked.Load() > 0
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.known) == 0 && !blocked {
		return
	}
	for _, r := range requests {
		name := r.Resource.String()
		if blocked || h.known[name] != nil { // replaced, so that a look under way does not count
			now := time.Now()
			h.known[name] = &heldLock{resource: r.Resource, readAt: now, next: now.Add(lookMin),
				free: true, releasedAt: now}
			signal(h.added)
		}
	}
}

// blocker returns the lock of one of the requests that another run has, or for which a waiter is
// ahead of the position, as of the last look. It returns false if none is known.
func (h *heldLocks) blocker(p position, requests []locking.Request) (heldLock, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, r := range requests {
		lock := h.known[r.Resource.String()]
		if lock != nil && !lock.free && r.Mode == locking.Exclusive && lock.run != p.run &&
			now.Before(lock.next.Add(lookLate)) &&
			(lock.queue == nil || !p.before(lock.position)) {
			return *lock, true
		}
	}
	return heldLock{}, false
}

// watches reports whether the resource, in its display form, is the one that blocks the firing at
// this position, and the looks will show when it is free. Then the first waiting firing is woken,
// and all are if the looks fail.
func (h *heldLocks) watches(resource string, p position, requests []locking.Request) bool {
	lock, isKnown := h.blocker(p, requests)
	return isKnown && !lock.unlocked && lock.resource.String() == resource
}

// run looks at the locks until ctx ends.
func (h *heldLocks) run(ctx context.Context) {
	for ctx.Err() == nil {
		due, next := h.due(time.Now())
		switch {
		case len(due) > 0 && h.look(ctx, due):
			_ = sleep.For(ctx, lookPause)
		case len(due) > 0:
			_ = sleep.For(ctx, lookBackoff)
		default:
			h.wait(ctx, next)
		}
	}
}

// due returns the locks at which to look now, or the time of the next look; zero if no lock is
// known. It forgets locks for which no firing waits.
func (h *heldLocks) due(now time.Time) (due []*heldLock, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, lock := range h.known {
		switch {
		case lock.next.After(now):
			if next.IsZero() || lock.next.Before(next) {
				next = lock.next
			}
		case h.handover.awaits(name):
			due = append(due, lock)
		default:
			delete(h.known, name)
		}
	}
	return due, next
}

// wait waits until next, or until a lock is added. If next is zero, it waits for the latter.
func (h *heldLocks) wait(ctx context.Context, next time.Time) {
	var timeout <-chan time.Time
	if !next.IsZero() {
		timer := sleep.Timer(time.Until(next))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-timeout:
	case <-h.added:
	case <-ctx.Done():
	}
}

// look reads the locks and wakes the first waiting firing of each that is free. It reports whether
// memcached has answered.
func (h *heldLocks) look(ctx context.Context, due []*heldLock) bool {
	resources := make([]locking.Resource, len(due))
	for i, lock := range due {
		resources[i] = lock.resource
	}
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	sent := time.Now()
	holders, err := h.locker.Inspect(bounded, resources)
	if err != nil {
		if ctx.Err() == nil {
			h.log.Debug().Err(err).Int("locks", len(due)).Msg("look at held locks failed")
			h.forget(due)
		}
		return false
	}
	for _, name := range h.found(due, holders, sent) {
		h.handover.wake(name)
	}
	return true
}

// forget removes the locks after a look that failed, and wakes the firings that wait for them: they
// must ask memcached themselves.
func (h *heldLocks) forget(due []*heldLock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, lock := range due {
		name := lock.resource.String()
		if h.known[name] == lock {
			delete(h.known, name)
			h.handover.wakeAll(name)
		}
	}
}

// found notes what a look has shown. It returns the names of the free locks whose first waiting
// firing should try now. It forgets a lock if only a run without an advisory lock was known to have
// the resource.
func (h *heldLocks) found(due []*heldLock, holders map[locking.Resource]locking.Holder,
	sent time.Time) (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, lock := range due {
		name := lock.resource.String()
		if h.known[name] != lock || lock.readAt.After(sent) {
			continue // this replica has released or locked it since
		}
		if holder, held := holders[lock.resource]; held {
			h.update(lock, holder.Owner, sent)
			continue
		}
		if lock.unlocked {
			delete(h.known, name)
			continue
		}
		*lock = heldLock{resource: lock.resource, readAt: sent, next: sent.Add(lookMin), free: true,
			releasedAt: lock.releasedAt}
		names = append(names, name)
	}
	return names
}
