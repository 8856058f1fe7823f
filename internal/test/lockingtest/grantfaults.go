package lockingtest

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

func grantFaultTests() map[string]func(*testing.T, LockerFixture) {
	return map[string]func(*testing.T, LockerFixture){
		"GrantUnavailable":     testGrantUnavailable,
		"GrantLosesReply":      testGrantLosesReply,
		"GrantLandsLate":       testGrantLandsLate,
		"QueueingLandsLate":    testQueueingLandsLate,
		"AcquireRepeatsGrant":  testAcquireRepeatsGrant,
		"WithdrawalFails":      testWithdrawalFails,
		"ReleaseUnavailable":   testGrantReleaseUnavailable,
		"ReleaseLosesReply":    testGrantReleaseLosesReply,
		"HeartbeatsFail":       testFailingHeartbeats,
		"NoAdvisoryLocks":      testWithoutAdvisoryLocks,
		"OutageIsRemembered":   testOutageIsRemembered,
		"AdvisoryLocksFull":    testFullAdvisoryLocks,
		"AdvisoryLocksUnclear": testUnclearAdvisoryLocks,
		"ReleaseOrder":         testClaimIsReleasedBeforeItsAdvisoryLock,
	}
}

func testGrantUnavailable(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	m.grants.Times(OpGrant, Unavailable, 1)
	_, err := m.try(t, "job", writes("a"), reads("b"))
	check(t, "lock", err, locking.ErrUnavailable)
	if errors.Is(err, locking.ErrHeld) {
		t.Errorf("got %v, want only ErrUnavailable", err)
	}
	c.checkNothingLeft("a", "b")
	free(t, m.gets(t, "job", writes("a"), reads("b")))
}

func testGrantLosesReply(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	m.grants.Times(OpGrant, LoseReply, 1)
	_, err := m.try(t, "job", writes("a"), reads("b"))
	check(t, "lock", err, locking.ErrUnavailable)
	c.checkNothingLeft("a", "b")
}

// testGrantLandsLate makes the claim appear after it was withdrawn. A heartbeat finds that no lock
// owns it.
func testGrantLandsLate(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	m.grants.Times(OpGrant, Late, 1)
	_, err := m.try(t, "job", writes("a"))
	check(t, "lock", err, locking.ErrUnavailable)
	m.grants.Land()
	kept := m.gets(t, "kept", writes("b"))
	c.awaitFree("a")
	check(t, "context of another lock", kept.Context().Err(), nil)
	free(t, kept)
}

func testQueueingLandsLate(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", reads("m"))
	b.grants.Times(OpGrant, Late, 1)
	_, err := b.Acquire(t.Context(), b.owner("waiter"), []locking.Request{writes("m")},
		retry.Policy{})
	check(t, "lock", err, locking.ErrUnavailable)
	b.grants.Land()
	if len(b.queued(t)) != 1 {
		t.Error("no delayed operation was run")
	}
	c.awaitWaiters(b, 0)
	free(t, a.gets(t, "reader", reads("m")), blocker)
}

// testAcquireRepeatsGrant loses replies. The lock keeps its id and has one claim.
func testAcquireRepeatsGrant(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	for _, fault := range []Fault{LoseReply, Unavailable} {
		m.grants.Times(OpGrant, fault, 3)
		lock := (<-m.waits(t, t.Context(), "job", writes("a"), slot("s", 1))).must(t)
		heartbeat, err := c.grants.Heartbeat(t.Context(), m.grants.Session())
		if err != nil || len(heartbeat.Claims) != 1 || len(heartbeat.Waiting) != 0 {
			t.Errorf("fault %d: %+v, %v", fault, heartbeat, err)
		}
		if _, exists := heartbeat.Claims[lock.Token()]; !exists {
			t.Errorf("fault %d: the claim of the lock is not %d", fault, lock.Token())
		}
		free(t, lock)
	}
	m.grants.Always(Unavailable)
	_, err := m.Acquire(t.Context(), m.owner("job"), []locking.Request{writes("a")},
		retry.Policy{Attempts: 3, Delay: atOnce})
	var exhausted *retry.ExhaustedError
	if !errors.As(err, &exhausted) || exhausted.Attempts != 3 ||
		!errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	m.grants.Choose(nil)
	c.checkNothingLeft("a", "s")
}

func testWithdrawalFails(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", reads("m"))
	b.grants.Times(OpWithdraw, Unavailable, math.MaxInt) // a heartbeat withdraws it, too
	_, err := b.Acquire(t.Context(), b.owner("waiter"), []locking.Request{writes("m")},
		retry.Policy{Attempts: 2, Delay: atOnce})
	checkRefused(t, err, "blocker")
	if len(b.queued(t)) == 0 {
		t.Error("the lock was withdrawn in spite of the fault")
	}
	b.grants.Choose(nil)
	c.awaitWaiters(b, 0)
	free(t, blocker)
}

func testGrantReleaseUnavailable(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	lock := m.gets(t, "job", writes("a"))
	m.grants.Times(OpRelease, Unavailable, 1)
	err := lock.Release(t.Context())
	check(t, "release", err, locking.ErrUnavailable)
	if lost := new(locking.LostError); errors.As(err, &lost) {
		t.Errorf("got %v, want an error that says that the lock was lost", err)
	}
	check(t, "cause", context.Cause(lock.Context()), locking.ErrReleased)
	c.awaitFree("a")
}

func testGrantReleaseLosesReply(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	lock := m.gets(t, "job", writes("a"))
	m.grants.Times(OpRelease, LoseReply, 1)
	check(t, "release", lock.Release(t.Context()), locking.ErrUnavailable)
	c.checkNothingLeft("a")
	kept := m.gets(t, "kept", writes("a"))
	heartbeats := m.grants.Count(OpBeat)
	await(t, "heartbeat", func() bool { return m.grants.Count(OpBeat) > heartbeats })
	check(t, "context", kept.Context().Err(), nil)
	free(t, kept)
}

// testFailingHeartbeats makes heartbeats fail for less than the session's TTL, and then for longer.
func testFailingHeartbeats(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	lock := m.gets(t, "job", writes("a"))
	failed := m.grants.Count(OpBeat)
	m.grants.Times(OpBeat, Unavailable, 2)
	await(t, "heartbeats", func() bool { return m.grants.Count(OpBeat) > failed+2 })
	check(t, "context", lock.Context().Err(), nil)
	m.grants.Always(Unavailable)
	checkSessionLost(t, awaitEnd(t, lock))
	m.grants.Choose(nil)
	c.ready(m)
	free(t, (<-m.waits(t, t.Context(), "next", writes("a"))).must(t))
}

// testWithoutAdvisoryLocks makes the backend fail. The grants decide alone. The locker adds the
// advisory locks again when the backend works.
func testWithoutAdvisoryLocks(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	a.faults.Always(Unavailable)
	b.faults.Always(Unavailable)
	lock := a.gets(t, "job", writes("s"), writes("t"))
	b.isRefused(t, "job", writes("s/x"))
	b.isRefused(t, "job", writes("t"))
	waiter := b.waits(t, t.Context(), "waiter", writes("t"))
	c.awaitWaiters(b, 1)
	a.faults.Choose(nil)
	b.faults.Choose(nil)
	await(t, "advisory locks", func() bool {
		return c.advisoryLockOf("s") == nil && c.advisoryLockOf("t") == nil
	})
	if n := len(a.seen(locking.EventRestored)); n != 0 {
		t.Errorf("%d advisory locks were restored that had not vanished", n)
	}
	free(t, lock)
	free(t, (<-waiter).must(t))
	c.checkNothingLeft("s", "t")
}

func testOutageIsRemembered(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	m := c.join("replica-1")
	m.faults.Always(Unavailable)
	start := time.Now()
	for range 50 {
		m.gets(t, "job", writes("a"), writes("b"), writes("c"), writes("d"))
		check(t, "release", m.ReleaseAll(t.Context()), nil)
	}
	most := 1 + int(time.Since(start)/time.Second)
	if adds := m.faults.Count(OpAdd); adds > most {
		t.Errorf("%d adds of 200 in an outage, want at most %d", adds, most)
	}
	m.faults.Choose(nil)
	await(t, "end of the outage", func() bool {
		defer free(t, m.gets(t, "job", writes("a")))
		return c.advisoryLockOf("a") == nil
	})
	c.checkNothingLeft("a", "b", "c", "d")
}

func testFullAdvisoryLocks(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	m := c.join("replica-1")
	m.faults.Choose(func(op Op, key string) Fault {
		if op == OpAdd && strings.HasSuffix(key, "b") {
			return Full
		}
		return None
	})
	lock := m.gets(t, "job", writes("a"), writes("b"), writes("c"))
	check(t, "advisory lock", c.advisoryLockOf("a"), nil)
	check(t, "advisory lock", c.advisoryLockOf("c"), nil)
	m.isRefused(t, "job", writes("b"))
	free(t, lock)
	c.checkNothingLeft("a", "b", "c")
}

func testUnclearAdvisoryLocks(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	m := c.join("replica-1")
	m.faults.Choose(func(op Op, _ string) Fault {
		switch op {
		case OpAdd:
			return LoseReply
		case OpGet:
			return Unavailable
		}
		return None
	})
	lock := m.gets(t, "job", writes("a"))
	m.faults.Choose(nil)
	free(t, lock)
	await(t, "removal of the abandoned advisory lock", func() bool {
		return c.advisoryLockOf("a") != nil
	})
	c.checkNothingLeft("a")
}

// testClaimIsReleasedBeforeItsAdvisoryLock checks that the grants do not refuse a caller that finds
// the advisory lock gone.
func testClaimIsReleasedBeforeItsAdvisoryLock(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	lock := a.gets(t, "job", writes("s/t"))
	var next *locking.Lock
	var err error
	a.faults.Choose(func(op Op, _ string) Fault {
		if op == OpDelete && next == nil {
			next, err = b.try(t, "next", writes("s"))
		}
		return None
	})
	free(t, lock)
	if err != nil {
		t.Fatalf("the claim exists while its advisory lock is removed: %v", err)
	}
	a.faults.Choose(nil)
	free(t, next)
	c.checkNothingLeft("s")
}
