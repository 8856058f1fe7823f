package lockingtest

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/locking"
)

// These tests wait for a renewal. The shortest lease has one after 3.3 s.
func restoreTests() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"Vanished":        testVanished,
		"Taken":           testTaken,
		"RestoreVanished": testRestoreVanished,
		"RestoreTaken":    testRestoreTaken,
		"Forgotten":       testForgotten,
		"Outlives":        testOutlivesItsLease,
	}
}

func testVanished(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	a.start(t)
	lock := a.lock(t, "job", "a", "b")
	s.vanish(t, "b")
	err := awaitEnd(t, lock)
	checkLost(t, err, locking.LossVanished)
	if lost := new(locking.LostError); !errors.As(err, &lost) || lost.Resource != path(t, "b") {
		t.Errorf("the cause does not name the resource: %v", err)
	}
	await(t, "event", func() bool { return len(a.seen(locking.EventLost)) == 1 })
	if got := a.seen(locking.EventLost)[0]; got.Owner != a.owner("job") ||
		got.Resource != path(t, "b") || !errors.Is(got.Err, err) {
		t.Errorf("got event %+v", got)
	}
	checkLost(t, lock.Release(t.Context()), locking.LossVanished)
	s.checkEmpty(t)
}

func testTaken(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	a.start(t)
	lock := a.lock(t, "job", "a")
	s.vanish(t, "a")
	successor := b.lock(t, "successor", "a")
	err := awaitEnd(t, lock)
	checkLost(t, err, locking.LossTaken)
	if lost := new(locking.LostError); !errors.As(err, &lost) || lost.Holder.Job != "successor" {
		t.Errorf("the cause does not name the new holder: %v", err)
	}
	checkLost(t, lock.Release(t.Context()), locking.LossTaken)
	check(t, "the successor's release", successor.Release(t.Context()), nil)
	s.checkEmpty(t)
}

func testRestoreVanished(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1", restoring)
	a.start(t)
	lock := a.lock(t, "job", "a", "b")
	s.vanish(t, "a")
	await(t, "restoration", func() bool { return len(a.seen(locking.EventRestored)) == 1 })
	if got := a.seen(locking.EventRestored)[0]; got.Resource != path(t, "a") ||
		got.Owner != a.owner("job") {
		t.Errorf("got event %+v", got)
	}
	_, err := a.TryAcquire(t.Context(), a.owner("other"), exclusive(t, "a"))
	checkHeld(t, err, "a", "job")
	if lock.Context().Err() != nil {
		t.Errorf("the lock ended: %v", context.Cause(lock.Context()))
	}
	check(t, "release", lock.Release(t.Context()), nil)
	s.checkEmpty(t)
}

// testRestoreTaken also checks that the advisory lock is added again when the key is free.
func testRestoreTaken(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1", restoring), s.join(t, "replica-2")
	a.start(t)
	lock := a.lock(t, "job", "a")
	s.vanish(t, "a")
	other := b.lock(t, "other", "a")
	await(t, "notice", func() bool { return len(a.seen(locking.EventTaken)) == 1 })
	if got := a.seen(locking.EventTaken)[0]; got.Resource != path(t, "a") ||
		got.Holder.Job != "other" {
		t.Errorf("got event %+v", got)
	}
	if lock.Context().Err() != nil {
		t.Errorf("the lock ended: %v", context.Cause(lock.Context()))
	}
	check(t, "the other's release", other.Release(t.Context()), nil)
	await(t, "restoration", func() bool { return len(a.seen(locking.EventRestored)) == 1 })
	check(t, "release", lock.Release(t.Context()), nil)
	s.checkEmpty(t)
}

// testForgotten makes the store lose everything while several locks of both kinds are held.
func testForgotten(t *testing.T, f Fixture) {
	if f.Forget == nil {
		t.Skip("this store cannot lose its keys")
	}
	s := newStore(t, f)
	alone, restores := s.join(t, "replica-1"), s.join(t, "replica-2", restoring)
	alone.start(t)
	restores.start(t)
	lost, kept := alone.lock(t, "alone", "a", "b"), restores.lock(t, "restores", "c", "d")
	f.Forget(t)
	checkLost(t, awaitEnd(t, lost), locking.LossVanished)
	await(t, "restoration", func() bool { return len(restores.seen(locking.EventRestored)) == 2 })
	_, err := alone.TryAcquire(t.Context(), alone.owner("other"), exclusive(t, "c"))
	checkHeld(t, err, "c", "restores")
	check(t, "release", kept.Release(t.Context()), nil)
	checkLost(t, lost.Release(t.Context()), locking.LossVanished)
	s.checkEmpty(t)
}

func testOutlivesItsLease(t *testing.T, f Fixture) {
	if testing.Short() {
		t.Skip("waits longer than a lease")
	}
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	a.start(t)
	lock := a.lock(t, "job", "a")
	control := b.lock(t, "control", "b") // replica-2 does not run its renewals
	checkLost(t, awaitEnd(t, control), locking.LossUnconfirmed)
	await(t, "expiry of the control lock", func() bool {
		found, err := b.Inspect(t.Context(), []locking.Resource{path(t, "b")})
		return err == nil && len(found) == 0
	})
	_, err := b.TryAcquire(t.Context(), b.owner("other"), exclusive(t, "a"))
	checkHeld(t, err, "a", "job")
	if lock.Context().Err() != nil {
		t.Errorf("the lock ended: %v", context.Cause(lock.Context()))
	}
	check(t, "release", lock.Release(t.Context()), nil)
}
