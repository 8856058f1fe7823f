package lockingtest

import (
	"maps"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

func reserveTests() map[string]func(*testing.T, GrantsFixture) {
	return map[string]func(*testing.T, GrantsFixture){
		"NeverReserved":        testNeverReserved,
		"PassedOnceUnreserved": testPassedOnceUnreserved,
		"ReservedAgain":        testReservedAgain,
	}
}

func allWaitingTests() map[string]func(*testing.T, GrantsFixture) {
	tests := waitingTests()
	maps.Copy(tests, reserveTests())
	return tests
}

// briefly returns a request that reserves its position for this long only.
func briefly(r locking.GrantRequest, reserve time.Duration) locking.GrantRequest {
	r.Reserve = reserve
	return waiting(r)
}

// testNeverReserved lets a lock wait for a name and a descendant without a reservation. Other locks
// are granted free resources in every mode.
func testNeverReserved(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	holder := ask(writes("s/t"), slot("api", 2))
	held := c.granted(one, holder)
	waiter := briefly(ask(writes("s"), slot("api", 2)), 0)
	c.refused(one, waiter, holder)
	for _, r := range []locking.GrantRequest{ask(writes("s/u")), ask(reads("s/v")),
		ask(slot("api", 2))} {
		c.release(c.granted(two, r))
	}
	c.release(held)
	c.granted(one, waiter)
}

// testPassedOnceUnreserved lets a lock wait with a short reservation.
func testPassedOnceUnreserved(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	holder := ask(writes("s/t"))
	c.granted(one, holder)
	waiter := briefly(ask(writes("s")), 200*time.Millisecond)
	c.refused(one, waiter, holder)
	younger := ask(writes("s/u"))
	await(t, "the younger to pass", func() bool { return c.grant(two, younger)[0].Token != 0 })
}

// testReservedAgain lets a lock wait until it has a second reservation.
func testReservedAgain(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	holder := ask(writes("s/t"))
	c.granted(one, holder)
	waiter := briefly(ask(writes("s")), 200*time.Millisecond)
	c.refused(one, waiter, holder)
	passes := func() bool {
		c.refused(one, waiter, holder)
		result := c.grant(two, ask(writes("s/u")))[0]
		if result.Token != 0 {
			c.release(result.Token)
		}
		return result.Token != 0
	}
	await(t, "the younger to pass", passes)
	await(t, "a second reservation of the waiter", func() bool { return !passes() })
	await(t, "the younger to pass again", passes)
}
