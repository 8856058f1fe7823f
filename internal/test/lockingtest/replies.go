package lockingtest

import (
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/locking"
)

func replyTests() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"AddTookEffect":     testLostReplyToAdd,
		"AddIsLost":         testLostAdd,
		"AddIsDelayed":      testDelayedAdd,
		"AddAndGet":         testLostReplyToAddAndGet,
		"HeldButUnseen":     testHeldButUnseen,
		"StrayIsRemoved":    testStrayIsRemoved,
		"StrayIsSwept":      testStrayIsSwept,
		"StrayIsNoHolder":   testStrayIsNoHolder,
		"ReleaseTookEffect": testLostReplyToRelease,
		"ReleaseFails":      testFailedRelease,
	}
}

func testLostReplyToAdd(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	a.faults.Once(OpAdd, LoseReply)
	lock := a.lock(t, "job", "a", "b")
	if n := a.faults.Count(OpAdd); n != 1 {
		t.Errorf("%d requests to add 2 keys, want 1 and none again", n)
	}
	check(t, "release", lock.Release(t.Context()), nil)
	s.checkEmpty(t)
}

func testLostAdd(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	a.faults.Once(OpAdd, LoseRequest)
	lock := a.lock(t, "job", "a")
	check(t, "release", lock.Release(t.Context()), nil)
	s.checkEmpty(t)
}

// testDelayedAdd makes the first add arrive after the caller gave up. The abandoned key must not
// block others for long.
func testDelayedAdd(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	a.faults.Once(OpAdd, Late)
	lock := a.lock(t, "job", "a")
	check(t, "release", lock.Release(t.Context()), nil)
	a.faults.Land()
	s.advisoryLock(t, "a") // the key exists
	again := a.lock(t, "job", "a")
	check(t, "release", again.Release(t.Context()), nil)
	s.checkEmpty(t)
}

func testLostReplyToAddAndGet(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	a.faults.Choose(func(op Op, _ string) Fault {
		switch op {
		case OpAdd:
			return LoseReply
		case OpGet:
			return Unavailable
		}
		return None
	})
	_, err := a.TryAcquire(t.Context(), a.owner("job"), exclusive(t, "a"))
	check(t, "lock", err, locking.ErrUnclear)
	if errors.Is(err, locking.ErrHeld) || errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("got %v, want only ErrUnclear", err)
	}
}

func testHeldButUnseen(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	a.lock(t, "job", "a")
	b.faults.Once(OpGet, Unavailable)
	_, err := b.TryAcquire(t.Context(), b.owner("other"), exclusive(t, "a"))
	checkHeld(t, err, "a", "")
}

// leaveStray makes replica r fail so that it abandons its advisory lock of name.
func leaveStray(t *testing.T, s *store, r *replica, name string) {
	t.Helper()
	r.faults.Choose(func(op Op, _ string) Fault {
		switch op {
		case OpAdd:
			return LoseReply
		case OpGet, OpDelete:
			return Unavailable
		}
		return None
	})
	_, err := r.TryAcquire(t.Context(), r.owner("failed"), exclusive(t, name))
	check(t, "lock that is abandoned", err, locking.ErrUnclear)
	r.faults.Choose(nil)
	s.advisoryLock(t, name)
}

func testStrayIsRemoved(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	leaveStray(t, s, a, "a")
	_, err := b.TryAcquire(t.Context(), b.owner("other"), exclusive(t, "a"))
	checkHeld(t, err, "a", "failed") // replica-2 cannot know that the lock is abandoned
	lock := a.lock(t, "job", "a")
	check(t, "release", lock.Release(t.Context()), nil)
	s.checkEmpty(t)
}

func testStrayIsSwept(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1", longLease)
	leaveStray(t, s, a, "a")
	a.start(t)
	await(t, "removal of the abandoned advisory lock", func() bool {
		found, err := s.Get(t.Context(), s.keys.all()...)
		return err == nil && len(found) == 0
	})
}

func testStrayIsNoHolder(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	leaveStray(t, s, a, "a")
	found, err := a.Inspect(t.Context(), []locking.Resource{path(t, "a")})
	if err != nil || len(found) != 0 {
		t.Errorf("got %v, %v", found, err)
	}
}

func testLostReplyToRelease(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	lock := a.lock(t, "job", "a")
	a.faults.Once(OpDelete, LoseReply)
	check(t, "release", lock.Release(t.Context()), nil)
	s.checkEmpty(t)
}

func testFailedRelease(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	lock := a.lock(t, "job", "a", "b")
	a.faults.Always(Unavailable)
	err := lock.Release(t.Context())
	check(t, "release", err, locking.ErrUnavailable)
	if lost := new(locking.LostError); errors.As(err, &lost) {
		t.Errorf("got %v, want an error that says that the lock was lost", err)
	}
	a.faults.Choose(nil)
	check(t, "release of what was left", a.lock(t, "job", "a", "b").Release(t.Context()), nil)
	s.checkEmpty(t)
}
