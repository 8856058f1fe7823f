package lockingtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

func lockSessionTests() map[string]func(*testing.T, LockerFixture) {
	return map[string]func(*testing.T, LockerFixture){
		"NoSession":             testWithoutASession,
		"WaitsForSession":       testAcquireWaitsForASession,
		"Ready":                 testReady,
		"SessionLost":           testLocksEndWithTheirSession,
		"WaitsThroughLoss":      testWaiterSurvivesItsSession,
		"ClaimTaken":            testClaimTakenByForce,
		"ReleaseOfTakenClaim":   testReleaseOfATakenClaim,
		"ReleaseAll":            testReleaseAll,
		"End":                   testEndOfRun,
		"AfterTheEnd":           testAfterTheEnd,
		"DeadSessions":          testLocksOfDeadSessionsAreFreed,
		"FormerSession":         testEarlierSessionIsSucceeded,
		"SameName":              testMembersOfOneNameDoNotEndEachOther,
		"RestoredAdvisoryLocks": testAdvisoryLocksAreRestored,
	}
}

func testWithoutASession(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.newMember("replica-1")
	_, err := m.try(t, "job", writes("a"))
	check(t, "lock before there is a session", err, locking.ErrNoSession)
	if errors.Is(err, locking.ErrHeld) {
		t.Errorf("got %v, want only the error of a missing session", err)
	}
	c.checkNothingLeft("a")
}

func testAcquireWaitsForASession(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.newMember("replica-1")
	_, err := m.Acquire(t.Context(), m.owner("impatient"), []locking.Request{writes("a")},
		retry.Policy{Elapsed: 5 * time.Millisecond, Delay: time.Millisecond})
	check(t, "lock without a session", err, locking.ErrNoSession)
	m.grants.Times(OpOpen, Unavailable, 2)
	done := make(chan outcome, 1)
	go func() {
		// one try
		lock, err := m.Acquire(t.Context(), m.owner("job"), []locking.Request{writes("a")},
			retry.Policy{})
		done <- outcome{lock, err}
	}()
	c.run(m)
	free(t, (<-done).must(t))
	c.checkNothingLeft("a")
}

func testReady(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.newMember("replica-1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := m.Ready(ctx)
	check(t, "readiness", err, locking.ErrNoSession)
	check(t, "readiness", err, context.Canceled)
	c.run(m)
	c.ready(m)
	_, err = m.try(t, "job", writes("a"))
	check(t, "lock once ready", err, nil)
	m.stop()
	check(t, "readiness after the end", m.Ready(t.Context()), locking.ErrNoSession)
}

func checkSessionLost(t *testing.T, err error) {
	t.Helper()
	checkLost(t, err, locking.LossSession)
	check(t, "cause", err, locking.ErrSessionLost)
}

func testLocksEndWithTheirSession(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	locks := []*locking.Lock{m.gets(t, "one", writes("a")), m.gets(t, "two", reads("b")),
		m.gets(t, "three", slot("c", 2))}
	c.expire(m)
	for _, lock := range locks {
		checkSessionLost(t, awaitEnd(t, lock))
	}
	await(t, "events", func() bool { return len(m.seen(locking.EventLost)) == len(locks) })
	for _, lock := range locks {
		checkSessionLost(t, lock.Release(t.Context()))
	}
	c.ready(m) // the member has another session and has swept the lost one
	free(t, m.gets(t, "next", writes("a"), writes("b"), writes("c")))
	c.checkNothingLeft("a", "b", "c")
}

func testWaiterSurvivesItsSession(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", reads("m"))
	done := b.waits(t, t.Context(), "waiter", writes("m"))
	c.awaitWaiters(b, 1)
	former := b.grants.Session()
	c.expire(b)
	await(t, "another session", func() bool { return b.grants.Session() != former })
	free(t, blocker)
	free(t, (<-done).must(t))
	c.checkNothingLeft("m")
}

func testClaimTakenByForce(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	taken, kept := m.gets(t, "taken", writes("a")), m.gets(t, "kept", writes("b"))
	_, err := c.grants.Release(t.Context(), []locking.Token{taken.Token()})
	check(t, "force", err, nil)
	err = awaitEnd(t, taken)
	checkLost(t, err, locking.LossClaim)
	check(t, "cause", err, locking.ErrSuperseded)
	checkLost(t, taken.Release(t.Context()), locking.LossClaim)
	check(t, "the other's context", kept.Context().Err(), nil)
	free(t, kept)
	c.checkNothingLeft("a", "b")
}

// testReleaseOfATakenClaim releases before a heartbeat reports the loss.
func testReleaseOfATakenClaim(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	m.grants.Choose(func(op Op) Fault {
		if op == OpBeat {
			return Unavailable
		}
		return None
	})
	lock := m.gets(t, "job", writes("a"))
	_, err := c.grants.Release(t.Context(), []locking.Token{lock.Token()})
	check(t, "force", err, nil)
	err = lock.Release(t.Context())
	checkLost(t, err, locking.LossClaim)
	if again := lock.Release(t.Context()); !errors.Is(again, err) {
		t.Errorf("second release: got %v", again)
	}
	c.checkNothingLeft("a")
}

func testReleaseAll(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	var locks []*locking.Lock
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprint("n", i))
		locks = append(locks, a.gets(t, "job",
			[]locking.Request{writes(names[i]), reads(names[i])}[i%2]))
	}
	other := b.gets(t, "other", writes("other"))
	free(t, locks[0])
	check(t, "release of all", a.ReleaseAll(t.Context()), nil)
	for _, lock := range locks {
		check(t, "cause", context.Cause(lock.Context()), locking.ErrReleased)
	}
	check(t, "context of another's", other.Context().Err(), nil)
	check(t, "release of nothing", a.ReleaseAll(t.Context()), nil)
	free(t, other)
	c.checkNothingLeft(names...)
	lost := a.gets(t, "job", writes("a"))
	_, err := c.grants.Release(t.Context(), []locking.Token{lost.Token()})
	check(t, "force", err, nil)
	if lost.Context().Err() == nil { // otherwise a heartbeat came first
		checkLost(t, a.ReleaseAll(t.Context()), locking.LossClaim)
	}
}

func testEndOfRun(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	locks := []*locking.Lock{m.gets(t, "one", writes("a")),
		m.gets(t, "two", reads("b"), writes("c"))}
	holder := c.join("replica-2").gets(t, "holder", reads("d"))
	waiter := m.waits(t, t.Context(), "waiter", writes("d"))
	c.awaitWaiters(m, 1)
	m.stop()
	for _, lock := range locks {
		checkSessionLost(t, context.Cause(lock.Context()))
	}
	o := <-waiter
	check(t, "who waited", o.err, locking.ErrNoSession)
	if exhausted := new(retry.ExhaustedError); errors.As(o.err, &exhausted) {
		t.Errorf("the call kept waiting for a session of a stopped locker: %v", o.err)
	}
	free(t, holder)
	c.checkNothingLeft("a", "b", "c", "d")
	for _, lock := range locks {
		checkSessionLost(t, lock.Release(t.Context()))
	}
}

func testAfterTheEnd(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	m.stop()
	_, err := m.try(t, "job", writes("a"))
	check(t, "try", err, locking.ErrNoSession)
	_, err = m.Acquire(t.Context(), m.owner("job"), []locking.Request{writes("a")},
		retry.Policy{Attempts: 2, Delay: time.Millisecond})
	check(t, "wait", err, locking.ErrNoSession)
	check(t, "release of nothing", m.ReleaseAll(t.Context()), nil)
	c.checkNothingLeft("a")
}

// testLocksOfDeadSessionsAreFreed checks that a member frees the locks of a dead member, with their
// advisory locks, long before their lease ends.
func testLocksOfDeadSessionsAreFreed(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	long := func(o *locking.Options) {
		if c.store != nil {
			longLease(o)
		}
	}
	dead, live := c.join("replica-1", long), c.join("replica-2", long)
	kept := live.gets(t, "kept", writes("k"))
	for i := range 20 {
		dead.gets(t, "lost", writes(fmt.Sprint("s/", i)), reads(fmt.Sprint("r/", i)))
	}
	if live.faults != nil { // a later sweep removes what one could not
		failed := 0
		live.faults.Choose(func(op Op, key string) Fault {
			if op != OpDelete || !strings.Contains(key, "/") || failed == 30 {
				return None
			}
			failed++
			return Unavailable
		})
	}
	c.kill(dead)
	o := <-live.waits(t, t.Context(), "next", writes("s"), writes("r"))
	free(t, o.must(t))
	if c.store != nil {
		for i := range 20 {
			await(t, "removal of an advisory lock", func() bool {
				return c.advisoryLockOf(fmt.Sprint("s/", i)) != nil
			})
		}
		check(t, "advisory lock of the live member", c.advisoryLockOf("k"), nil)
	}
	check(t, "context of the live member", kept.Context().Err(), nil)
	free(t, kept)
	c.checkNothingLeft("s", "r", "k")
}

func succeeding(o *locking.Options) { o.Session.ReplaceEarlier = true }

func testEarlierSessionIsSucceeded(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	former, other := c.join("replica-1", succeeding), c.join("replica-2", succeeding)
	kept := other.gets(t, "kept", writes("k"))
	former.gets(t, "lost", writes("a"), reads("b"))
	former.grants.Always(Unavailable) // the process is dead, but its session has not expired
	if former.faults != nil {
		former.faults.Always(Unavailable)
	}
	former.stop()
	next := c.join("replica-1", succeeding)
	free(t, next.gets(t, "next", writes("a"), writes("b"))) // free at once
	check(t, "context of another's", kept.Context().Err(), nil)
	free(t, kept)
	c.checkNothingLeft("a", "b", "k")
}

// testMembersOfOneNameDoNotEndEachOther starts two processes with one configured name. The second
// succeeds the first. Then the first opens another session beside it.
func testMembersOfOneNameDoNotEndEachOther(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	first := c.join("replica-1", succeeding)
	former := first.grants.Session()
	second := c.join("replica-1", succeeding)
	lock := second.gets(t, "job", writes("a"))
	await(t, "another session of the first",
		func() bool { return first.grants.Session() != former })
	c.ready(first)
	sessions := [2]uuid.UUID{first.grants.Session(), second.grants.Session()}
	heartbeats := second.grants.Count(OpBeat)
	await(t, "heartbeats", func() bool { return second.grants.Count(OpBeat) > heartbeats+1 })
	if now := [2]uuid.UUID{first.grants.Session(), second.grants.Session()}; now != sessions {
		t.Errorf("sessions %v, then %v", sessions, now)
	}
	check(t, "context", lock.Context().Err(), nil)
	first.isRefused(t, "job", writes("a"))
	free(t, lock)
}

// testAdvisoryLocksAreRestored removes an advisory lock. The locker adds it again, and the lock
// remains held.
func testAdvisoryLocksAreRestored(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	m := c.join("replica-1")
	lock := m.gets(t, "job", writes("a"))
	c.vanish(t, "a")
	await(t, "restoration", func() bool { return len(m.seen(locking.EventRestored)) == 1 })
	check(t, "advisory lock", c.advisoryLockOf("a"), nil)
	check(t, "context", lock.Context().Err(), nil)
	free(t, lock)
	c.checkNothingLeft("a")
}

// together calls do n times concurrently and waits for all calls.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	all.Wait()
}
