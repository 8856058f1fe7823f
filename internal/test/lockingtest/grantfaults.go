package lockingtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

func grantFaultTests() map[string]func(*testing.T, LockerFixture) {
	return map[string]func(*testing.T, LockerFixture){
		"GrantUnavailable":   testGrantUnavailable,
		"GrantLosesReply":    testGrantLosesReply,
		"GrantLandsLate":     testGrantLandsLate,
		"PlaceLandsLate":     testQueueingLandsLate,
		"AcquireAsksAgain":   testAcquireAsksAgain,
		"WithdrawalFails":    testWithdrawalFails,
		"ReleaseUnavailable": testGrantReleaseUnavailable,
		"ReleaseLosesReply":  testGrantReleaseLosesReply,
		"BeatsFail":          testFailingHeartbeats,
		"NoEntries":          testWithoutEntries,
		"OutageIsRemembered": testOutageIsRemembered,
		"EntriesFull":        testFullEntries,
		"EntriesUnclear":     testUnclearEntries,
		"ReleaseOrder":       testClaimIsReleasedBeforeItsEntry,
	}
}

func testGrantUnavailable(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	m.grants.Times(OpGrant, Unavailable, 1)
	_, err := m.try(t, "job", writes("a"), reads("b"))
	check(t, "lock", err, locking.ErrUnavailable)
	if errors.Is(err, locking.ErrHeld) {
		t.Errorf("unavailable is no other answer: %v", err)
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

// testGrantLandsLate has the claim appear after it was withdrawn. A heartbeat finds
// that no lock owns it.
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
	if len(b.places(t)) != 1 {
		t.Error("nothing landed")
	}
	c.awaitWaiters(b, 0)
	free(t, a.gets(t, "reader", reads("m")), blocker)
}

// testAcquireAsksAgain loses replies: the lock keeps its id, and has one claim.
func testAcquireAsksAgain(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	for _, fault := range []Fault{LoseReply, Unavailable} {
		m.grants.Times(OpGrant, fault, 3)
		lock := (<-m.waits(t, t.Context(), "job", writes("a"), slot("s", 1))).must(t)
		beat, err := c.grants.Heartbeat(t.Context(), m.grants.Session())
		if err != nil || len(beat.Claims) != 1 || len(beat.Waiting) != 0 {
			t.Errorf("fault %d: %+v, %v", fault, beat, err)
		}
		if _, stands := beat.Claims[lock.Token()]; !stands {
			t.Errorf("fault %d: the lock's claim is not %d", fault, lock.Token())
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
	b.grants.Times(OpWithdraw, Unavailable, 1)
	_, err := b.Acquire(t.Context(), b.owner("waiter"), []locking.Request{writes("m")},
		retry.Policy{Attempts: 2, Delay: atOnce})
	checkRefused(t, err, "blocker")
	if len(b.places(t)) == 0 {
		t.Error("it was withdrawn all the same")
	}
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
		t.Errorf("nothing says that it was lost: %v", err)
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
	beats := m.grants.Count(OpBeat)
	await(t, "heartbeat", func() bool { return m.grants.Count(OpBeat) > beats })
	check(t, "context", kept.Context().Err(), nil)
	free(t, kept)
}

// testFailingHeartbeats has heartbeats fail for less than the session is
// trusted, and then for longer.
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

// testWithoutEntries has the backend fail. The grants decide alone, and the advisory
// locks come back with the backend.
func testWithoutEntries(t *testing.T, f LockerFixture) {
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
	await(t, "entries", func() bool { return c.entryOf("s") == nil && c.entryOf("t") == nil })
	if n := len(a.seen(locking.EventRestored)); n != 0 {
		t.Errorf("%d entries were restored that never vanished", n)
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
		t.Errorf("%d adds of 200 in an outage, expected at most %d", adds, most)
	}
	m.faults.Choose(nil)
	await(t, "end of the outage", func() bool {
		defer free(t, m.gets(t, "job", writes("a")))
		return c.entryOf("a") == nil
	})
	c.checkNothingLeft("a", "b", "c", "d")
}

func testFullEntries(t *testing.T, f LockerFixture) {
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
	check(t, "entry", c.entryOf("a"), nil)
	check(t, "entry", c.entryOf("c"), nil)
	m.isRefused(t, "job", writes("b"))
	free(t, lock)
	c.checkNothingLeft("a", "b", "c")
}

func testUnclearEntries(t *testing.T, f LockerFixture) {
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
	await(t, "removal of the stray", func() bool { return c.entryOf("a") != nil })
	c.checkNothingLeft("a")
}

// testClaimIsReleasedBeforeItsEntry shows that who finds the entry gone is not
// refused by the grants.
func testClaimIsReleasedBeforeItsEntry(t *testing.T, f LockerFixture) {
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
		t.Fatalf("the claim stands while its entry is removed: %v", err)
	}
	a.faults.Choose(nil)
	free(t, next)
	c.checkNothingLeft("s")
}
