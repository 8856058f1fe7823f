package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// newTestHeldLocks returns the held locks of a replica, and a request for a table.
func newTestHeldLocks(t *testing.T) (*heldLocks, []locking.Request) {
	t.Helper()
	locker, err := locking.New(memory.New(), locking.Options{Namespace: "test",
		Lease: time.Hour, Restore: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	orders, err := locking.Table("orders", "public")
	if err != nil {
		t.Fatal(err)
	}
	return newHeldLocks(locker, newHandover(), defaultIntervals(), zerolog.Nop()),
		[]locking.Request{{Resource: orders, Mode: locking.Exclusive}}
}

// running looks at the locks until the returned function is called.
func running(t *testing.T, h *heldLocks) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	go h.run(ctx)
	return func() {
		stop()
		synctest.Wait()
	}
}

// runOf returns the id of the run that a test calls by this name.
func runOf(name string) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)) }

func ownerOf(run string) locking.Owner {
	return locking.Owner{Replica: "a", Job: run, Run: runOf(run).String()}
}

// waitingSince is the position of a firing of this name.
func waitingSince(since time.Time, name string) position {
	return position{since: since, run: runOf(name)}
}

// expectBlocker fails the test unless the run is known to block the table; "" means that no run is.
func expectBlocker(t *testing.T, h *heldLocks, requests []locking.Request, want string) {
	t.Helper()
	got := ""
	if held, ok := h.blocker(waitingSince(time.Now(), "asking"), requests); ok {
		got = held.holder.Job
	}
	if got != want {
		t.Errorf("known blocker %q, want %q", got, want)
	}
}

// The answer to a request may come after a run of this replica has taken the lock. It says less
// than what the replica knows.
func TestLateAnswerDoesNotReplaceANewerHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, orders := newTestHeldLocks(t)
		h.met(orders[0].Resource, ownerOf("one"), time.Now())
		sent := time.Now()
		time.Sleep(time.Millisecond)
		h.granted(orders, ownerOf("two"), time.Now())
		h.met(orders[0].Resource, ownerOf("one"), sent)
		expectBlocker(t, h, orders, "two")
		due := []*heldLock{h.known[orders[0].Resource.String()]}
		if free := h.found(due, nil, sent); len(free) > 0 {
			t.Errorf("an earlier look found %v free", free)
		}
		expectBlocker(t, h, orders, "two")
		h.released(orders)
		if free := h.found(due, nil, time.Now()); len(free) > 0 {
			t.Errorf("a look during the release wakes a second firing for %v", free)
		}
		expectBlocker(t, h, orders, "")
	})
}

// If looks are late or fail, firings ask memcached themselves.
func TestOldLookIsNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, orders := newTestHeldLocks(t)
		h.met(orders[0].Resource, ownerOf("one"), time.Now())
		time.Sleep(lookMin + lookLate - time.Nanosecond)
		expectBlocker(t, h, orders, "one")
		time.Sleep(time.Nanosecond)
		expectBlocker(t, h, orders, "")
	})
}

// A run whose advisory lock remained after an attempt asks for it, which finds that it is its own.
// Shared requests have no advisory lock.
func TestOwnLockAndSharedRequestsAreNotBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, orders := newTestHeldLocks(t)
		h.met(orders[0].Resource, ownerOf("asking"), time.Now())
		expectBlocker(t, h, orders, "")
		h.met(orders[0].Resource, ownerOf("one"), time.Now().Add(time.Nanosecond))
		expectBlocker(t, h, orders, "one")
		orders[0].Mode = locking.Shared
		expectBlocker(t, h, orders, "")
	})
}

// The longer a lock is held, the rarer are the looks. A look wakes the first waiting firing of a
// free lock, and forgets locks for which no firing waits.
func TestLooksFollowTheTimeOfTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, orders := newTestHeldLocks(t)
		ctx := t.Context()
		defer running(t, h)()
		lock, err := h.locker.TryAcquire(ctx, ownerOf("one"), orders)
		if err != nil {
			t.Fatal(err)
		}
		name := orders[0].Resource.String()
		wake, leave := h.handover.wait(name, waitingSince(time.Now(), "waiting"))
		defer leave()
		h.met(orders[0].Resource, ownerOf("one"), time.Now())
		for _, c := range []struct{ held, want time.Duration }{{400 * time.Millisecond, lookMin},
			{time.Second, 50 * time.Millisecond}, {time.Minute, 100 * time.Millisecond}} {
			time.Sleep(c.held)
			synctest.Wait()
			h.mu.Lock()
			known := h.known[name]
			interval := known.next.Sub(known.readAt)
			h.mu.Unlock()
			if interval < c.want || interval > c.want+c.want/2 {
				t.Errorf("a look each %s, want about %s", interval, c.want)
			}
		}
		released := time.Now()
		if err := lock.Release(ctx); err != nil {
			t.Fatal(err)
		}
		<-wake
		if took := time.Since(released); took > 100*time.Millisecond {
			t.Errorf("the release was found after %s", took)
		}
		h.met(orders[0].Resource, ownerOf("two"), time.Now())
		time.Sleep(time.Second)
		synctest.Wait()
		if _, known := h.due(time.Now()); !known.IsZero() {
			t.Error("the replica still looks at a lock for which no firing waits")
		}
	})
}

// refusedBehind returns the refusal of the store because this run waits ahead.
func refusedBehind(run string) *refusal {
	return &refusal{reason: reasons.OlderWaiter, granted: true,
		blocker: &jobs.Blocker{Resource: "public/orders", Holder: ownerOf(run), Waiting: true}}
}

// After the store has refused a firing because of an older waiter, only the firings behind the
// refused one leave the lock to this waiter. The next look wakes the first waiting firing.
func TestFiringsBehindARefusedOneLeaveTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, orders := newTestHeldLocks(t)
		defer running(t, h)()
		began := time.Now()
		wake, leave := h.handover.wait(orders[0].Resource.String(),
			waitingSince(began.Add(time.Second), "refused"))
		defer leave()
		h.refused(refusedBehind("older"), waitingSince(began.Add(time.Second), "refused"), began)
		for _, c := range []struct {
			run   string
			since time.Duration
			want  bool
		}{{"refused", time.Second, true}, {"later", 2 * time.Second, true},
			{"earlier", time.Second - time.Nanosecond, false}, {"older", 0, false}} {
			found, blocked := h.blocker(waitingSince(began.Add(c.since), c.run), orders)
			if blocked != c.want {
				t.Errorf("the firing %s is blocked: %v, want %v", c.run, blocked, c.want)
			}
			if blocked && found.queue == nil {
				t.Errorf("the firing %s is told that the waiter is a holder", c.run)
			}
		}
		<-wake
		if took := time.Since(began); took != h.intervals.locks {
			t.Errorf("the next look came after %s, want %s", took,
				h.intervals.locks)
		}
		expectBlocker(t, h, orders, "")
	})
}

// A look cannot show the end of a run that has no advisory lock. So it wakes no firing: the store
// would refuse one after the other while the run lasts.
func TestRunWithoutAdvisoryLockIsNotAwaitedInMemcached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, orders := newTestHeldLocks(t)
		defer running(t, h)()
		wake, leave := h.handover.wait(orders[0].Resource.String(),
			waitingSince(time.Now(), "waiting"))
		defer leave()
		refused := refusedBehind("unlocked")
		refused.reason = reasons.LockHeld
		h.refused(refused, waitingSince(time.Now(), "waiting"), time.Now())
		time.Sleep(h.intervals.locks - time.Nanosecond)
		expectBlocker(t, h, orders, "unlocked")
		time.Sleep(time.Second)
		synctest.Wait()
		expectBlocker(t, h, orders, "")
		select {
		case <-wake:
			t.Error("a look woke a firing")
		default:
		}
	})
}

// A run of this replica releases a lock while the store refuses a firing because of this run. The
// refusal is out of date when it comes. A look soon afterwards wakes the firing.
func TestReleaseDuringARefusalIsFoundByALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, orders := newTestHeldLocks(t)
		defer running(t, h)()
		h.blocked.Add(1)
		refused := refusedBehind("unlocked")
		refused.reason = reasons.LockHeld
		sent := time.Now()
		time.Sleep(time.Millisecond)
		h.released(orders)
		h.handover.released(orders)
		time.Sleep(time.Millisecond)
		h.refused(refused, waitingSince(sent, "waiting"), sent)
		expectBlocker(t, h, orders, "")
		wake, leave := h.handover.wait(orders[0].Resource.String(), waitingSince(sent, "waiting"))
		defer leave()
		<-wake
		if took := time.Since(sent); took > 2*lookMin {
			t.Errorf("the firing was woken after %s, want at most %s", took, 2*lookMin)
		}
		h.refused(refused, waitingSince(sent, "waiting"), time.Now()) // a later start
		expectBlocker(t, h, orders, "unlocked")
	})
}

// Without memcached, nobody looks at locks and forgets them.
func TestReleaseWithoutMemcachedNotesNothing(t *testing.T) {
	_, orders := newTestHeldLocks(t)
	h := newHeldLocks(nil, newHandover(), defaultIntervals(), zerolog.Nop())
	h.blocked.Add(1)
	h.released(orders)
	if !h.none() {
		t.Error("a lock is known")
	}
}

// A run of this replica releases a lock after a firing has met it as the holder, and before this
// firing waits. So the release wakes nobody. A look soon afterwards wakes the firing.
func TestReleaseBeforeTheWaitIsFoundByALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, orders := newTestHeldLocks(t)
		defer running(t, h)()
		h.met(orders[0].Resource, ownerOf("one"), time.Now())
		h.released(orders)
		h.handover.released(orders)
		expectBlocker(t, h, orders, "")
		wake, leave := h.handover.wait(orders[0].Resource.String(),
			waitingSince(time.Now(), "waiting"))
		defer leave()
		expectWake(t, wake, lookMin)
	})
}

// expectWake fails the test unless the firing is woken at this time after now.
func expectWake(t *testing.T, wake <-chan struct{}, after time.Duration) {
	t.Helper()
	asked := time.Now()
	select {
	case <-wake:
		if took := time.Since(asked); took != after {
			t.Errorf("the firing was woken after %s, want %s", took, after)
		}
	case <-time.After(time.Minute):
		t.Fatal("the firing was not woken within a minute")
	}
}

// The first waiting firing was woken for a free lock, and did not take it. The next one is woken
// when a later look finds the lock free.
func TestLookWakesTheNextFiringWhileTheLockIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, orders := newTestHeldLocks(t)
		defer running(t, h)()
		name := orders[0].Resource.String()
		first, leave := h.handover.wait(name, waitingSince(time.Now(), "first"))
		defer leave()
		next, leaveToo := h.handover.wait(name, waitingSince(time.Now().Add(1), "next"))
		defer leaveToo()
		h.met(orders[0].Resource, ownerOf("one"), time.Now())
		if !h.watches(name, waitingSince(time.Now(), "first"), orders) {
			t.Error("the replica does not look at the lock that a firing has met")
		}
		expectWake(t, first, lookMin)
		expectBlocker(t, h, orders, "")
		expectWake(t, next, lookMin)
	})
}

// noAnswers is a backend that does not answer reads.
type noAnswers struct{ locking.Backend }

func (noAnswers) Get(context.Context, ...string) (map[string][]byte, error) {
	return nil, errors.New("no answer")
}

// If a look fails, all firings that wait for the lock ask memcached themselves.
func TestFailedLookWakesAllFirings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, orders := newTestHeldLocks(t)
		locker, err := locking.New(noAnswers{memory.New()}, locking.Options{Namespace: "test",
			Lease: time.Hour, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		h.locker = locker
		defer running(t, h)()
		name := orders[0].Resource.String()
		first, leave := h.handover.wait(name, waitingSince(time.Now(), "first"))
		defer leave()
		next, leaveToo := h.handover.wait(name, waitingSince(time.Now().Add(1), "next"))
		defer leaveToo()
		h.met(orders[0].Resource, ownerOf("one"), time.Now())
		expectWake(t, first, lookMin)
		expectWake(t, next, 0)
		expectBlocker(t, h, orders, "")
		if h.watches(name, waitingSince(time.Now(), "first"), orders) {
			t.Error("a firing may rest although the looks fail")
		}
	})
}

// A replica learns from its own run when it releases a lock, so it looks at the lock rarely.
func TestLooksAtHeldLocksOfOwnRunsAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, orders := newTestHeldLocks(t)
		ctx := t.Context()
		defer running(t, h)()
		if _, err := h.locker.TryAcquire(ctx, ownerOf("one"), orders); err != nil {
			t.Fatal(err)
		}
		name := orders[0].Resource.String()
		_, leave := h.handover.wait(name, waitingSince(time.Now(), "waiting"))
		defer leave()
		expectInterval := func(want time.Duration) {
			t.Helper()
			h.mu.Lock()
			defer h.mu.Unlock()
			if got := h.known[name].next.Sub(h.known[name].readAt); got != want {
				t.Errorf("the next look comes after %s, want %s", got, want)
			}
		}
		h.met(orders[0].Resource, ownerOf("one"), time.Now())
		expectInterval(lookMin)
		h.granted(orders, ownerOf("one"), time.Now())
		expectInterval(h.intervals.locks)
		time.Sleep(h.intervals.locks)
		synctest.Wait() // for a look
		expectInterval(h.intervals.locks)
		h.met(orders[0].Resource, ownerOf("two"), time.Now().Add(1))
		expectInterval(lookMin)
	})
}
