package lockingtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

func waitingTests() map[string]func(*testing.T, GrantsFixture) {
	tests := map[string]func(*testing.T, GrantsFixture){
		"AgeIsOfTheFirstRefusal": testAgeOfAWaiter,
		"OlderDoesNotYield":      testOlderDoesNotYield,
		"OneQueue":               testOneQueue,
		"WriterBeforeNewReaders": testWriterBeforeNewReaders,
		"StaysQueuedWithoutWait": testWaiterStaysQueued,
		"Withdrawn":              testWithdrawnWaiter,
		"Ended":                  testWaiterOfAnEndedSession,
		"Expired":                testWaiterOfAnExpiredSession,
		"GrantedWaiter":          testGrantedWaiter,
		"WithinABatch":           testWaitersOfABatch,
		"SlotsOfWaiters":         testSlotsOfWaiters,
		"SlotForAWaiter":         testSlotForAWaiter,
		"OneSlotForAWaiter":      testGrantedWaiterHasOneSlot,
		"ReadersWaitTogether":    testReadersWaitTogether,
	}
	for name, pair := range map[string][2]locking.Request{
		"YieldsOnSameName": {writes("s/t"), writes("s/t")},
		"YieldsBelow":      {writes("s"), writes("s/other")},
		"YieldsFarBelow":   {writes("s"), writes("s/a/b/c")},
		"YieldsAbove":      {writes("s/t"), writes("s")},
		"ReaderYields":     {writes("s/t"), reads("s/t")},
		"WriterYields":     {reads("s/t"), writes("s/t")},
		"SlotYields":       {writes("s/t"), slot("s/t", 5)},
		"YieldsToASlot":    {slot("s/t", 5), writes("s/t")},
	} {
		tests[name] = func(t *testing.T, f GrantsFixture) { testYields(t, f, pair[0], pair[1]) }
	}
	for name, pair := range map[string][2]locking.Request{
		"SiblingDoesNotYield":    {writes("s/t"), writes("s/u")},
		"ReadersDoNotYield":      {reads("s/t"), reads("s/t")},
		"ReadersAboveDoNotYield": {reads("s/t"), reads("s")},
		"FreeSlotDoesNotYield":   {slot("s/t", 2), slot("s/t", 2)},
		"OtherNameDoesNotWait":   {writes("s/t"), writes("s/tt")},
	} {
		tests[name] = func(t *testing.T, f GrantsFixture) {
			testDoesNotYield(t, f, pair[0], pair[1])
		}
	}
	return tests
}

// queue is a lock that holds s/t and a lock that waits for it.
type queue struct {
	*grantsTest
	one, two       uuid.UUID // the waiter is of session one
	holder, waiter locking.GrantRequest
	held           locking.Token
}

func newQueue(t *testing.T, f GrantsFixture, wanted ...locking.Request) *queue {
	t.Helper()
	c := newGrantsTest(t, f)
	q := &queue{grantsTest: c, one: c.session("one"), two: c.session("two"),
		holder: ask(writes("s/t")),
		waiter: waiting(ask(wanted...))}
	q.held = c.granted(c.session("three"), q.holder)
	c.refused(q.one, q.waiter, q.holder)
	return q
}

func testYields(t *testing.T, f GrantsFixture, older, younger locking.Request) {
	q := newQueue(t, f, older)
	q.release(q.held)
	if b := q.yields(q.two, ask(younger), q.waiter); b.Resource != older.Resource {
		t.Errorf("got blocking resource %v", b.Resource)
	}
	late := waiting(ask(younger))
	q.yields(q.two, late, q.waiter)
	token := q.granted(q.one, q.waiter)
	q.refused(q.two, late, q.waiter)
	q.release(token)
	q.granted(q.two, late)
}

func testDoesNotYield(t *testing.T, f GrantsFixture, older, younger locking.Request) {
	q := newQueue(t, f, older)
	q.release(q.held)
	q.granted(q.two, ask(younger))
	q.granted(q.one, q.waiter)
}

// testAgeOfAWaiter checks that a repeated request does not make a waiter younger.
func testAgeOfAWaiter(t *testing.T, f GrantsFixture) {
	q := newQueue(t, f, writes("s/t"), writes("free"))
	second := waiting(ask(writes("s/t")))
	q.refused(q.two, second, q.holder)
	before := q.yields(q.two, ask(writes("free")), q.waiter)
	q.refused(q.one, q.waiter, q.holder)
	if after := q.yields(q.two, ask(writes("free")), q.waiter); !after.Since.Equal(before.Since) {
		t.Errorf("the lock waits since %s, then since %s", before.Since, after.Since)
	}
	q.release(q.held)
	q.yields(q.two, second, q.waiter)
	q.granted(q.one, q.waiter)
}

func testOlderDoesNotYield(t *testing.T, f GrantsFixture) {
	q := newQueue(t, f, writes("s/t"))
	second := waiting(ask(writes("s/t")))
	q.refused(q.two, second, q.holder)
	q.release(q.held)
	q.granted(q.one, q.waiter)
}

// testOneQueue lets many locks wait for one name. They are served in order, in all modes.
func testOneQueue(t *testing.T, f GrantsFixture) {
	q := newQueue(t, f, writes("s/t"))
	line := []locking.GrantRequest{q.waiter}
	for range 7 {
		next := waiting(ask(writes("s/t")))
		q.refused(q.two, next, q.holder)
		line = append(line, next)
	}
	sessions := append([]uuid.UUID{q.one}, slices.Repeat([]uuid.UUID{q.two}, 7)...)
	token := q.held
	for served := range line {
		q.release(token)
		for i := len(line) - 1; i > served; i-- {
			q.yields(sessions[i], line[i], line[served])
		}
		token = q.granted(sessions[served], line[served])
	}
}

func testWriterBeforeNewReaders(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	early := []locking.Token{c.granted(s, ask(reads("a"))), c.granted(s, ask(reads("a/b")))}
	writer := waiting(ask(writes("a")))
	if c.grant(s, writer)[0].Blocker == nil {
		t.Fatal("a writer was granted beside readers")
	}
	for _, late := range []string{"a", "a/b", "a/c/d"} {
		if c.grant(s, ask(reads(late)))[0].Blocker == nil {
			t.Errorf("a new reader of %s passed the waiting writer", late)
		}
	}
	for _, token := range early {
		c.release(token)
	}
	c.yields(s, ask(reads("a")), writer)
	c.granted(s, writer)
}

func testWaiterStaysQueued(t *testing.T, f GrantsFixture) {
	q := newQueue(t, f, writes("s/t"))
	impatient := q.waiter
	impatient.Wait = false
	q.refused(q.one, impatient, q.holder)
	q.release(q.held)
	q.yields(q.two, ask(writes("s/t")), q.waiter)
}

func testWithdrawnWaiter(t *testing.T, f GrantsFixture) {
	q := newQueue(t, f, writes("s/t"))
	q.release(q.held)
	q.must("withdrawal", q.Withdraw(t.Context(), q.one, []uuid.UUID{q.waiter.ID}))
	q.granted(q.two, ask(writes("s/t")))
}

func testWaiterOfAnEndedSession(t *testing.T, f GrantsFixture) {
	q := newQueue(t, f, writes("s/t"))
	q.release(q.held)
	q.must("end", q.EndSession(t.Context(), q.one))
	q.granted(q.two, ask(writes("s/t")))
}

func testWaiterOfAnExpiredSession(t *testing.T, f GrantsFixture) {
	q := newQueue(t, f, writes("s/t"))
	q.release(q.held)
	q.expire(q.one)
	q.granted(q.two, ask(writes("s/t")))
}

func testGrantedWaiter(t *testing.T, f GrantsFixture) {
	q := newQueue(t, f, writes("s/t"))
	if heartbeat := q.heartbeat(q.one); !slices.Equal(heartbeat.Waiting, []uuid.UUID{q.waiter.ID}) {
		t.Errorf("waiting %v", heartbeat.Waiting)
	}
	q.release(q.held)
	token := q.granted(q.one, q.waiter)
	if heartbeat := q.heartbeat(q.one); len(heartbeat.Waiting) != 0 ||
		heartbeat.Claims[token] != q.waiter.ID {
		t.Errorf("heartbeat %+v", heartbeat)
	}
	q.release(token)
	q.granted(q.two, ask(writes("s/t")))
}

// testWaitersOfABatch requests a younger waiter before an older one.
func testWaitersOfABatch(t *testing.T, f GrantsFixture) {
	q := newQueue(t, f, writes("s/t"))
	younger := waiting(ask(writes("s/t")))
	q.refused(q.one, younger, q.holder)
	q.release(q.held)
	results := q.grant(q.one, younger, q.waiter, ask(writes("s/t")))
	if b := results[0].Blocker; b == nil || b.ID != q.waiter.ID || !b.Waiting {
		t.Errorf("the younger: %+v", results[0])
	}
	if results[1].Token == 0 {
		t.Errorf("the older: %+v", results[1])
	}
	if b := results[2].Blocker; b == nil || b.ID != q.waiter.ID || b.Waiting {
		t.Errorf("the youngest: %+v", results[2])
	}
}

// testSlotsOfWaiters checks that older waiters keep their slots and no more.
func testSlotsOfWaiters(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	writer := ask(writes("api"))
	token := c.granted(s, writer)
	older := waiting(ask(slot("api", 2)))
	c.refused(s, older, writer)
	c.release(token)
	c.granted(s, ask(slot("api", 2)))
	if c.grant(s, ask(slot("api", 2)))[0].Blocker == nil {
		t.Error("the slot of an older waiter was granted to another lock")
	}
	c.granted(s, older)
	if c.grant(s, ask(slot("api", 2)))[0].Blocker == nil {
		t.Error("a third of two slots was granted")
	}
}

func testSlotForAWaiter(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	tokens := []locking.Token{c.granted(s, ask(slot("api", 2))), c.granted(s, ask(slot("api", 2)))}
	older, younger := waiting(ask(slot("api", 2))), waiting(ask(slot("api", 2)))
	for _, r := range []locking.GrantRequest{older, younger} {
		if b := c.grant(s, r)[0].Blocker; b == nil || b.Waiting {
			t.Fatalf("a third of two slots: %+v", b)
		}
	}
	c.release(tokens[0])
	if c.grant(s, younger)[0].Blocker == nil {
		t.Error("the younger waiter got the slot")
	}
	c.release(tokens[1])
	for i, result := range c.grant(s, younger, older) {
		if result.Token == 0 {
			t.Errorf("%d: two slots are free, got %+v", i, result.Blocker)
		}
	}
}

// testGrantedWaiterHasOneSlot checks that a granted waiter counts once.
func testGrantedWaiterHasOneSlot(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	writer, waiter := ask(writes("api")), waiting(ask(slot("api", 3)))
	token := c.granted(s, writer)
	c.refused(s, waiter, writer)
	c.release(token)
	c.granted(s, waiter)
	c.granted(s, ask(slot("api", 3)))
	c.granted(s, ask(slot("api", 3)))
	if c.grant(s, ask(slot("api", 3)))[0].Blocker == nil {
		t.Error("a fourth of three slots was granted")
	}
}

func testReadersWaitTogether(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	writer := ask(writes("a"))
	token := c.granted(s, writer)
	var readers []locking.GrantRequest
	for i := range 5 {
		r := waiting(ask(reads(fmt.Sprint("a", []string{"", "/x"}[i%2]))))
		c.refused(s, r, writer)
		readers = append(readers, r)
	}
	c.release(token)
	slices.Reverse(readers)
	for _, r := range readers {
		c.granted(s, r)
	}
}
