package lockingtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

func turnTests() map[string]func(*testing.T, LockerFixture) {
	return map[string]func(*testing.T, LockerFixture){
		"Waits":                     testWaitsForItsTurn,
		"GivesUp":                   testGivesUpItsTurn,
		"EndsByContext":             testTurnEndsByContext,
		"WaiterGoesFirst":           testWaiterGoesFirst,
		"WriterNotStarved":          testWriterIsNotStarved,
		"PollsAdvisoryLock":         testWaiterPollsTheAdvisoryLock,
		"PollsBlockersAdvisoryLock": testWaiterPollsTheBlockersAdvisoryLock,
		"QueuedInTime":              testQueuedAfterAWhile,
		"AdvisoryLockOfOthers":      testQueuedPassesAdvisoryLocksOfOthers,
		"AdvisoryLockChangesHolder": testAdvisoryLockOfAnotherIsNotTheBlockers,
		"OldestFirst":               testOldestIsServedFirst,
		"ForeignAdvisoryLock":       testForeignAdvisoryLockDoesNotBlockForever,
	}
}

func testWaitsForItsTurn(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	for _, pair := range [][2]locking.Request{
		{writes("s/t"), writes("s/t")}, {writes("s"), writes("s/t")}, {writes("s/t"), writes("s")},
		{reads("s/t"), writes("s/t")}, {writes("s/t"), reads("s/t")}, {slot("s", 1), slot("s", 1)},
	} {
		blocker := a.gets(t, "blocker", pair[0])
		done := b.waits(t, t.Context(), "waiter", pair[1], writes("other"))
		await(t, "first tries", func() bool { return b.tries() > 0 })
		select {
		case o := <-done:
			t.Fatalf("%v did not wait for %v: %v", pair[1], pair[0], o.err)
		default:
		}
		free(t, blocker)
		free(t, (<-done).must(t))
		c.checkNothingLeft("s", "other")
	}
}

// tries returns the number of grants and advisory locks that a member has tried to get.
func (m *member) tries() int {
	n := m.grants.Count(OpGrant)
	if m.faults != nil {
		n += m.faults.Count(OpAdd)
	}
	return n
}

func testGivesUpItsTurn(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	for _, pair := range [][2]locking.Request{{writes("m"), writes("m")},
		{writes("m"), writes("m/x")}, {reads("m"), writes("m")}} {
		blocker := a.gets(t, "blocker", pair[0])
		_, err := b.Acquire(t.Context(), b.owner("waiter"), []locking.Request{pair[1], writes("a")},
			retry.Policy{Attempts: 3, Delay: atOnce})
		checkRefused(t, err, "blocker")
		var exhausted *retry.ExhaustedError
		if !errors.As(err, &exhausted) || exhausted.Attempts != 3 || exhausted.Waited < 2*atOnce {
			t.Errorf("the error has no tries or time: %v", err)
		}
		for _, word := range []string{"3 tries in ", "path:m is held by", "job blocker",
			"run-of-blocker", "on replica-1"} {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%q is missing in %v", word, err)
			}
		}
		c.awaitWaiters(b, 0)
		free(t, blocker)
		c.checkNothingLeft("m", "a")
	}
}

func testTurnEndsByContext(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", reads("m"))
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := b.waits(t, ctx, "waiter", writes("m"))
	c.awaitWaiters(b, 1)
	cancel(stop)
	o := <-done
	if o.lock != nil || !errors.Is(o.err, stop) {
		t.Errorf("got %v", o.err)
	}
	c.awaitWaiters(b, 0)
	a.gets(t, "reader", reads("m"))
	free(t, blocker)
	_, err := b.try(t, "late", writes("x"))
	check(t, "lock", err, nil)
	_, err = b.TryAcquire(ctx, b.owner("late"), []locking.Request{writes("y")})
	check(t, "lock with an ended context", err, stop)
	c.awaitFree("y")
}

// testWaiterGoesFirst checks the error if the blocker is a waiter.
func testWaiterGoesFirst(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", reads("s/t"))
	ctx, cancel := context.WithCancel(t.Context())
	done := b.waits(t, ctx, "elder", writes("s"))
	c.awaitWaiters(b, 1)
	held := a.isRefused(t, "elder", writes("s/other"))
	if want :=
		"path:s is waited for by job elder (run run-of-elder) on replica-2, which goes first"; !held.Waiting || held.Error() != want {
		t.Errorf("got %q, waiting: %v; want %q", held, held.Waiting, want)
	}
	_, err := a.Acquire(t.Context(), a.owner("younger"), []locking.Request{writes("s/other")},
		retry.Policy{Attempts: 2, Delay: atOnce})
	if err == nil || !strings.Contains(err.Error(), "gave up after 2 tries in ") ||
		!strings.Contains(err.Error(), held.Error()) {
		t.Errorf("got %v", err)
	}
	cancel()
	<-done
	free(t, a.gets(t, "younger", writes("s/other")), blocker)
}

func testWriterIsNotStarved(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	first := a.gets(t, "reader", reads("a"))
	writer := b.waits(t, t.Context(), "writer", writes("a"))
	c.awaitWaiters(b, 1)
	a.isRefused(t, "writer", reads("a"))
	a.isRefused(t, "writer", reads("a/b"))
	reader := a.waits(t, t.Context(), "late reader", reads("a"))
	c.awaitWaiters(a, 1)
	free(t, first)
	lock := (<-writer).must(t)
	a.isRefused(t, "writer", reads("a"))
	free(t, lock)
	free(t, (<-reader).must(t))
	c.checkNothingLeft("a")
}

// testWaiterPollsTheAdvisoryLock counts the calls of a short wait to the grants.
func testWaiterPollsTheAdvisoryLock(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", writes("m"))
	start := time.Now()
	done := b.waits(t, t.Context(), "waiter", writes("m"))
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > 5 })
	grants := b.grants.Count(OpGrant)
	if took := time.Since(start); grants > int(took/time.Second) {
		t.Errorf("%d calls to the grants in the %s while the advisory lock existed, want one each "+
			"second at most", grants, took)
	}
	free(t, blocker)
	free(t, (<-done).must(t))
}

func testWaiterPollsTheBlockersAdvisoryLock(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", writes("s/t"))
	done := b.waits(t, t.Context(), "waiter", writes("s"))
	c.awaitWaiters(b, 1)
	polled := b.faults.Count(OpGet)
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > polled+20 })
	if grants, adds := b.grants.Count(OpGrant), b.faults.Count(OpAdd); grants != 1 || adds != 1 {
		t.Errorf("%d calls to the grants, and %d advisory locks added, while the blocker's "+
			"advisory lock existed", grants, adds)
	}
	if err := c.advisoryLockOf("s"); err == nil {
		t.Error("the waiter has an advisory lock")
	}
	free(t, blocker)
	lock := (<-done).must(t)
	if err := c.advisoryLockOf("s"); err != nil {
		t.Errorf("the new holder has no advisory lock: %v", err)
	}
	free(t, lock)
	c.checkNothingLeft("s")
}

// advisoryLockOf returns nil if the name has an advisory lock.
func (c *cluster) advisoryLockOf(name string) error {
	found, err := c.Get(c.Context(), "test:path:"+name)
	if err == nil && len(found) == 0 {
		err = errors.New("there is no advisory lock")
	}
	return err
}

// testQueuedAfterAWhile checks that a caller that waits long for an advisory lock is queued.
func testQueuedAfterAWhile(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", writes("m"))
	done := b.waits(t, t.Context(), "waiter", writes("m"))
	c.awaitWaiters(b, 1)
	grants, polled := b.grants.Count(OpGrant), b.faults.Count(OpGet)
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > polled+20 })
	if more := b.grants.Count(OpGrant) - grants; more != 0 {
		t.Errorf("%d more calls to the grants while the advisory lock existed", more)
	}
	free(t, blocker)
	free(t, (<-done).must(t))
}

// testQueuedPassesAdvisoryLocksOfOthers lets the name have an advisory lock of another member. A
// waiter whose turn it is does not wait for that lock and does not remove it.
func testQueuedPassesAdvisoryLocksOfOthers(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", reads("m"))
	done := b.waits(t, t.Context(), "waiter", writes("m"))
	c.awaitWaiters(b, 1)
	await(t, "removal of the waiter's own advisory lock", func() bool {
		return c.Add(t.Context(), "test:path:m", []byte(othersEntry), lease) == nil
	})
	free(t, blocker)
	lock := (<-done).must(t)
	check(t, "context", lock.Context().Err(), nil)
	free(t, lock)
	checkValue(t, c.store, "test:path:m", othersEntry)
}

const othersEntry = `{"nonce":"n","resource":"path:m","lock_id":"other","replica":"replica-3","job":"other","run_id":"r"}`

// testAdvisoryLockOfAnotherIsNotTheBlockers replaces the blocker's advisory lock by another. The
// waiter that polls it then asks the grants and does not wait for the other lock.
func testAdvisoryLockOfAnotherIsNotTheBlockers(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", writes("m"))
	done := b.waits(t, t.Context(), "waiter", writes("m"))
	c.awaitWaiters(b, 1)
	c.replace(t, "m", othersEntry)
	free(t, blocker)
	free(t, (<-done).must(t))
	checkValue(t, c.store, "test:path:m", othersEntry)
}

// testOldestIsServedFirst lets several queued waiters wait and checks the order in which they are
// served.
func testOldestIsServedFirst(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1", longReserve), c.join("replica-2", longReserve)
	blocker := a.gets(t, "blocker", reads("m"))
	const waiters = 6
	served := make(chan int, waiters)
	var all sync.WaitGroup
	defer all.Wait()
	for i := range waiters {
		m := []*member{a, b}[i%2]
		done := m.waits(t, t.Context(), "waiter", writes("m"))
		c.awaitWaiters(m, i/2+1)
		all.Go(func() {
			o := <-done
			served <- i
			if o.err != nil {
				t.Errorf("waiter %d: %v", i, o.err)
				return
			}
			if err := o.lock.Release(context.Background()); err != nil {
				t.Errorf("release by %d: %v", i, err)
			}
		})
	}
	free(t, blocker)
	for want := range waiters {
		if got := <-served; got != want {
			t.Errorf("waiter %d was served at position %d", got, want)
		}
	}
}

// testForeignAdvisoryLockDoesNotBlockForever stores a value of another program under the key. It
// counts as held by an unknown holder, is never removed and does not overrule the grants.
func testForeignAdvisoryLockDoesNotBlockForever(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a := c.join("replica-1")
	for _, value := range []string{"", "garbage", `{"nonce":"x","resource":"path:other"}`,
		"\x00\xff"} {
		check(t, "add", c.Add(t.Context(), "test:path:m", []byte(value), lease), nil)
		held := a.isRefused(t, "", writes("m"))
		if held.Holder.Known() || !strings.Contains(held.Error(), "unknown") {
			t.Errorf("%q is held by %v", value, held)
		}
		lock := (<-a.waits(t, t.Context(), "waiter", writes("m"))).must(t)
		checkValue(t, c.store, "test:path:m", value)
		free(t, lock)
		checkValue(t, c.store, "test:path:m", value)
		check(t, "delete", c.Delete(t.Context(), "test:path:m", []byte(value)), nil)
	}
}
