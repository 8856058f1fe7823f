package locking_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
	"github.com/holdfast-dev/holdfast/retry"
)

// longLease is the lease of programs with long work. No test waits for its end.
const longLease = 2 * time.Minute

// killAfterAdd makes the duo's locker behave as if its process were killed after its next add. No
// later call reaches a store.
func (d *duo) killAfterAdd() {
	var dead atomic.Bool
	d.advisory.Choose(func(op lockingtest.Op, _ string) lockingtest.Fault {
		if dead.Load() {
			return lockingtest.Unavailable
		}
		dead.Store(op == lockingtest.OpAdd)
		return lockingtest.None
	})
	d.grants.Choose(func(lockingtest.Op) lockingtest.Fault {
		if dead.Load() {
			return lockingtest.Unavailable
		}
		return lockingtest.None
	})
}

// until repeats a try with short delays, like a program with a policy shorter than a second. It
// returns how long that took.
func until(t *testing.T, locker *locking.Locker, requests []locking.Request) time.Duration {
	t.Helper()
	for startedAt := time.Now(); ; {
		k, err := locker.Acquire(t.Context(), locking.Owner{}, requests,
			retry.Policy{Attempts: 10, Delay: 10 * time.Millisecond})
		if err == nil {
			release(t, k)
			return time.Since(startedAt)
		}
		if !errors.Is(err, locking.ErrHeld) || time.Since(startedAt) > time.Hour {
			t.Fatal(err)
		}
	}
}

// A replica that is killed between its add and the grant leaves an advisory lock without a row in
// the store.
func TestAdvisoryLockOfADeadSessionIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		victim, other := d.startFor(t, "a", longLease), d.other()
		successor, startedAt := other.startFor(t, "b", longLease), time.Now()
		d.killAfterAdd()
		if _, err := victim.TryAcquire(t.Context(), locking.Owner{},
			exclusive(t, "m")); !errors.Is(err, locking.ErrUnavailable) {
			t.Fatal(err)
		}
		until(t, successor, exclusive(t, "m"))
		took := time.Since(startedAt)
		if least, most := ttl-time.Second, ttl+3*time.Second; took < least || took > most {
			t.Errorf("granted after %s, want %s to %s: when its owner's session had expired",
				took, least, most)
		}
	})
}

// A lock that is granted before its advisory lock can be added adds it as soon as the session of
// the other advisory lock is known to be dead.
func TestGrantedLockReplacesTheAdvisoryLockOfADeadSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		victim, other := d.startFor(t, "a", longLease), d.other()
		successor := other.startFor(t, "b", longLease)
		d.killAfterAdd()
		if _, err := victim.TryAcquire(t.Context(), locking.Owner{},
			exclusive(t, "m")); !errors.Is(err, locking.ErrUnavailable) {
			t.Fatal(err)
		}
		owner := locking.Owner{Replica: "b", Job: "successor"}
		k, err := successor.Acquire(t.Context(), owner, exclusive(t, "m"),
			retry.Policy{Elapsed: time.Minute, Delay: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		// the second renewal knows that the session is dead
		time.Sleep(2*longLease/3 + 5*time.Second)
		found, err := successor.Inspect(t.Context(),
			[]locking.Resource{exclusive(t, "m")[0].Resource})
		if err != nil || len(found) != 1 {
			t.Fatalf("got %v, %v", found, err)
		}
		for _, holder := range found {
			if holder.Owner != owner {
				t.Errorf("advisory lock of %s, want that of the holder", holder)
			}
		}
		release(t, k)
	})
}

// The locker asks about sessions at most every two seconds, and a live session keeps its advisory
// lock.
func TestWaitingForALiveAdvisoryLockCallsRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		holder, other := d.start(t, "a"), d.other()
		waiter := other.start(t, "b")
		k := lock(t, holder, "m")
		startedAt := time.Now()
		for ; time.Since(startedAt) < time.Minute; time.Sleep(10 * time.Millisecond) {
			if _, err := waiter.TryAcquire(t.Context(), locking.Owner{},
				exclusive(t, "m")); !errors.Is(err, locking.ErrHeld) {
				t.Fatalf("try behind a live holder: %v", err)
			}
		}
		if asked := other.grants.Count(lockingtest.OpLiving); asked < 1 || asked > 31 {
			t.Errorf("got %d calls in a minute, want 1 to 31", asked)
		}
		release(t, k)
	})
}

// While the state of the session is unknown, the end of the lease decides.
func TestAdvisoryLockIsKeptWhileItsSessionIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		sessions := &register{fail: true}
		options := locking.Options{Restore: true, Sessions: sessions, Log: zerolog.Nop()}
		dead := newLocker(t, backend, options) // without Run nothing is renewed
		if _, err := dead.TryAcquireIn(t.Context(), uuid.New(), locking.Owner{},
			exclusive(t, "m")); err != nil {
			t.Fatal(err)
		}
		took := until(t, start(t, backend, options), exclusive(t, "m"))
		if took < lease-2*time.Second || took > lease+time.Second {
			t.Errorf("granted after %s, want the lease of %s", took, lease)
		}
	})
}

// The grants of the caller know its sessions.
func TestAdvisoryLockOfTheCallersSession(t *testing.T) {
	for name, test := range map[string]struct {
		session uuid.UUID
		live    bool
		most    time.Duration
	}{
		"dead":    {uuid.New(), false, 3 * time.Second},
		"alive":   {uuid.New(), true, lease + time.Second},
		"unnamed": {uuid.Nil, false, lease + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend, sessions := memory.New(), &register{}
				if test.live {
					sessions.live = []uuid.UUID{test.session}
				}
				options := locking.Options{Restore: true, Sessions: sessions, Log: zerolog.Nop()}
				if _, err := newLocker(t, backend, options).
					TryAcquireIn(t.Context(), test.session, locking.Owner{},
						exclusive(t, "m")); err != nil {
					t.Fatal(err)
				}
				took := until(t, start(t, backend, options), exclusive(t, "m"))
				if least := test.most - 4*time.Second; took > test.most || took < least {
					t.Errorf("granted after %s, want %s to %s", took, least, test.most)
				}
			})
		})
	}
}

// register is Sessions in which the listed sessions are live.
type register struct {
	mu   sync.Mutex
	live []uuid.UUID
	fail bool
}

func (r *register) LiveSessions(_ context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail {
		return nil, locking.ErrUnavailable
	}
	return slices.DeleteFunc(slices.Clone(sessions), func(id uuid.UUID) bool {
		return !slices.Contains(r.live, id)
	}), nil
}
