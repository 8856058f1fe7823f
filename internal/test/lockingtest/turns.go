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
		"Waits":             testWaitsForItsTurn,
		"GivesUp":           testGivesUpItsTurn,
		"EndsByContext":     testTurnEndsByContext,
		"GoesFirst":         testWhoWaitsGoesFirst,
		"WriterNotStarved":  testWriterIsNotStarved,
		"PollsEntries":      testWaiterPollsTheEntry,
		"PollsTheRelatives": testWaiterPollsTheBlockersEntry,
		"PlaceInTime":       testQueuedAfterAWhile,
		"OtherEntry":        testQueuedPassesOthersEntries,
		"AnothersEntry":     testEntryOfAnotherIsNotTheBlockers,
		"OldestFirst":       testOldestIsServedFirst,
		"ForeignEntry":      testForeignEntryDoesNotBlockForEver,
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

// tries counts what a member asked of either stage.
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
			t.Errorf("tries or time missing: %v", err)
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

// testWhoWaitsGoesFirst has the error say that the other only waits.
func testWhoWaitsGoesFirst(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", reads("s/t"))
	ctx, cancel := context.WithCancel(t.Context())
	done := b.waits(t, ctx, "elder", writes("s"))
	c.awaitWaiters(b, 1)
	held := a.isRefused(t, "elder", writes("s/other"))
	if want :=
		"path:s is waited for by job elder (run run-of-elder) on replica-2, which goes first"; !held.Waiting || held.Error() != want {
		t.Errorf("got %q, waiting: %v; expected %q", held, held.Waiting, want)
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

// testWaiterPollsTheEntry counts what a short wait asks of the grants.
func testWaiterPollsTheEntry(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", writes("m"))
	start := time.Now()
	done := b.waits(t, t.Context(), "waiter", writes("m"))
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > 5 })
	if asked := b.grants.Count(OpGrant); asked > 0 && time.Since(start) < time.Second || asked > 1 {
		t.Errorf("the grants were asked %d times while the entry stood", asked)
	}
	free(t, blocker)
	free(t, (<-done).must(t))
}

func testWaiterPollsTheBlockersEntry(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", writes("s/t"))
	done := b.waits(t, t.Context(), "waiter", writes("s"))
	c.awaitWaiters(b, 1)
	polled := b.faults.Count(OpGet)
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > polled+20 })
	if asked, adds := b.grants.Count(OpGrant), b.faults.Count(OpAdd); asked != 1 || adds != 1 {
		t.Errorf("the grants were asked %d times, and %d entries added, while the blocker's "+
			"entry stood", asked, adds)
	}
	if err := c.entryOf("s"); err == nil {
		t.Error("who waits has an entry")
	}
	free(t, blocker)
	lock := (<-done).must(t)
	if err := c.entryOf("s"); err != nil {
		t.Errorf("who was granted has no entry: %v", err)
	}
	free(t, lock)
	c.checkNothingLeft("s")
}

// entryOf returns nil if there is an entry of the name.
func (c *cluster) entryOf(name string) error {
	found, err := c.Get(c.Context(), "test:path:"+name)
	if err == nil && len(found) == 0 {
		err = errors.New("there is no entry")
	}
	return err
}

// testQueuedAfterAWhile shows that who waits behind an entry for long is among
// the waiting.
func testQueuedAfterAWhile(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", writes("m"))
	done := b.waits(t, t.Context(), "waiter", writes("m"))
	c.awaitWaiters(b, 1)
	asked, polled := b.grants.Count(OpGrant), b.faults.Count(OpGet)
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > polled+20 })
	if more := b.grants.Count(OpGrant) - asked; more != 0 {
		t.Errorf("the grants were asked %d times more while the entry stood", more)
	}
	free(t, blocker)
	free(t, (<-done).must(t))
}

// testQueuedPassesOthersEntries has an entry of another lie on the name: who
// has his turn need not wait for it, and leaves it alone.
func testQueuedPassesOthersEntries(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := a.gets(t, "blocker", reads("m"))
	done := b.waits(t, t.Context(), "waiter", writes("m"))
	c.awaitWaiters(b, 1)
	await(t, "removal of the waiter's own entry", func() bool {
		return c.Add(t.Context(), "test:path:m", []byte(othersEntry), lease) == nil
	})
	free(t, blocker)
	lock := (<-done).must(t)
	check(t, "context", lock.Context().Err(), nil)
	free(t, lock)
	checkValue(t, c.store, "test:path:m", othersEntry)
}

const othersEntry = `{"nonce":"n","resource":"path:m","lock_id":"other","replica":"replica-3","job":"other","run_id":"r"}`

// testEntryOfAnotherIsNotTheBlockers has the blocker's entry make way for
// another's: who polls it then asks the grants, and not for that one's end.
func testEntryOfAnotherIsNotTheBlockers(t *testing.T, f LockerFixture) {
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

// testOldestIsServedFirst lets several wait, each with a place, and looks at
// the order in which they are served.
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
			t.Errorf("waiter %d was served in place %d", got, want)
		}
	}
}

// testForeignEntryDoesNotBlockForEver has something lie on the key that is not
// ours: it is held by unknown, is never removed, and does not outweigh the grants.
func testForeignEntryDoesNotBlockForEver(t *testing.T, f LockerFixture) {
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
