package jobstest

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// reserve is how long the waiters of these tests reserve their positions. Only Pass ends it.
const reserve = time.Hour

// lapse is long enough for one reservation to end, and too short for two.
const lapse = reserve + reserve/2

var reserveRules = []rule{
	{"a younger firing passes a waiter after its reservation ends", func(c *check) {
		q := c.queue(table("s/t"))
		q.free()
		c.blocked(q.two, q.younger, reasons.OlderWaiter, q.older)
		c.Pass(lapse)
		c.granted(q.two, q.younger)
		c.blocked(q.one, q.older, reasons.LockHeld, q.younger)
	}},
	{"a waiter on a schema blocks its tables only during its reservation",
		func(c *check) {
			q := c.queue(table("s"))
			q.younger.Requests = []locking.Request{table("s/other")}
			c.blocked(q.two, q.younger, reasons.OlderWaiter, q.older)
			c.Pass(lapse)
			token := c.granted(q.two, q.younger)
			c.blocked(q.one, q.older, reasons.LockHeld, q.younger)
			c.finished(q.younger, token, jobs.Succeeded)
			q.free()
			c.granted(q.one, q.older)
		}},
	{"a younger firing passes a waiter without a reservation at once", func(c *check) {
		one, two := c.session("one"), c.session("two")
		holder, older, younger := request("holder", 1, table("s/t")),
			request("older", 2, table("s")), request("younger", 3, table("s/u"))
		older.Reserve = 0
		c.granted(one, holder)
		c.blocked(one, older, reasons.LockHeld, holder)
		c.granted(two, younger)
	}},
	{"a refused start returns how long its position is reserved", func(c *check) {
		q := c.queue(table("s/t"))
		if left := c.start(q.one, q.older)[0].Reserved; left <= reserve/2 || left > reserve {
			c.Errorf("position is reserved for %s, want nearly %s", left, reserve)
		}
		c.Pass(lapse)
		equal(c, "reserved", c.start(q.one, q.older)[0].Reserved, 0)
	}},
	{"a position is reserved again after it was unreserved five times as long",
		func(c *check) {
			q := c.queue(table("s/t"))
			c.Pass(reserve + locking.Unreserved*reserve - time.Minute)
			equal(c, "reserved too soon", c.start(q.one, q.older)[0].Reserved, 0)
			c.Pass(2 * time.Minute)
			if left := c.start(q.one, q.older)[0].Reserved; left <= reserve/2 {
				c.Errorf("position is reserved for %s, want nearly %s", left, reserve)
			}
			q.free()
			c.blocked(q.two, q.younger, reasons.OlderWaiter, q.older)
			c.granted(q.one, q.older)
		}},
	{"a refusal does not extend a reservation", func(c *check) {
		q := c.queue(table("s/t"))
		for range 3 {
			c.Pass(reserve / 4)
			c.blocked(q.one, q.older, reasons.LockHeld, q.holder)
		}
		c.Pass(reserve / 2)
		q.free()
		c.granted(q.two, q.younger)
	}},
	{"a note reserves the position of a firing", func(c *check) {
		one, two := c.session("one"), c.session("two")
		older, younger := request("older", 1, table("s/t")), request("younger", 2, table("s/t"))
		equal(c, "note", c.note(one, noteOf(older, jobs.Waiting, reasons.LockHeld)), true)
		c.blocked(two, younger, reasons.OlderWaiter, older)
		c.Pass(lapse)
		c.granted(two, younger)
	}},
	{"runs of one job never pass each other", func(c *check) {
		s := c.session("one")
		first, second, third := request("a", 1, ownName("a")), request("a", 2, ownName("a")),
			request("a", 3, ownName("a"))
		second.Reserve, third.Reserve = 0, 0
		token := c.granted(s, first)
		c.blocked(s, second, reasons.Overlap, first)
		c.Pass(lapse)
		c.finished(first, token, jobs.Succeeded)
		c.blocked(s, third, reasons.OlderWaiter, second)
		c.granted(s, second)
	}},
	{"a wait for an earlier run of the job does not keep other jobs out", func(c *check) {
		s := c.session("one")
		first, second := request("a", 1, ownName("a"), table("s/t")),
			request("a", 2, ownName("a"), table("s/t"))
		other, third := request("b", 3, table("s/t")), request("c", 4, table("s/t"))
		second.Reserve = reserve
		token := c.granted(s, first)
		c.blocked(s, second, reasons.Overlap, first)
		equal(c, "reserved", c.start(s, second)[0].Reserved, 0)
		c.finished(first, token, jobs.Succeeded)
		token = c.granted(s, other)
		c.blocked(s, second, reasons.LockHeld, other)
		c.finished(other, token, jobs.Succeeded)
		c.blocked(s, third, reasons.OlderWaiter, second)
		c.granted(s, second)
	}},
	{"a waiter for a slot of a group is not passed", func(c *check) {
		s := c.session("one")
		first, second, third := request("a", 1, turn("g", 1)), request("b", 2, turn("g", 1)),
			request("c", 3, turn("g", 1))
		token := c.granted(s, first)
		c.blocked(s, second, reasons.GroupFull, first)
		c.Pass(lapse)
		c.finished(first, token, jobs.Succeeded)
		c.blocked(s, third, reasons.OlderWaiter, second)
		c.granted(s, second)
	}},
	{"a waiter for a lock keeps its position in its group only while it is reserved", func(c *check) {
		q := c.queue(table("s/t"))
		older, younger := request("b", 3, turn("g", 1), table("s/t")), request("c", 4, turn("g", 1))
		c.blocked(q.one, older, reasons.LockHeld, q.holder)
		c.blocked(q.two, younger, reasons.OlderWaiter, older)
		c.Pass(lapse)
		c.granted(q.two, younger)
	}},
	{"a writer among constant readers waits at most seven reservations",
		func(c *check) {
			r := &readers{c: c, session: c.session("readers")}
			r.start(3 * reserve) // a read that takes longer than a reservation
			writer, s := request("writer", 0, table("s/t")), c.session("writer")
			writer.WaitSince = epoch.Add(time.Second)
			const step = reserve / 4
			passed := time.Duration(0)
			for ; c.start(s, writer)[0].Outcome != storage.StartGranted; passed += step {
				if passed > 3*reserve+7*reserve {
					c.Fatalf("the writer still waits, %s after the long reader has ended",
						passed-3*reserve)
				}
				r.start(reserve * 2 / 3)
				c.Pass(step)
				r.pass(step)
			}
			if r.reservations < 4 {
				c.Errorf("%d readers began beside the writer that waited for %s: it kept them out",
					r.reservations, passed)
			}
		}},
}

// turn requests a slot of a group.
func turn(group string, n int) locking.Request {
	return ask(locking.KindGroup, group, locking.Slotted, n)
}

// readers are runs that read a table for a time.
type readers struct {
	c            *check
	session      uuid.UUID
	asked        int
	reservations int
	active       []reader
}

type reader struct {
	storage.StartRequest
	token jobs.Token
	left  time.Duration
}

// start starts another reader, if it is granted.
func (r *readers) start(length time.Duration) {
	r.c.Helper()
	r.asked++
	next := request("reader", r.asked, shared("s/t"))
	next.WaitSince, next.Reserve = epoch.Add(time.Duration(r.asked)*time.Minute), 0
	result := r.c.start(r.session, next)[0]
	if result.Outcome != storage.StartGranted {
		equal(r.c, "skip", r.c.note(r.session, noteOf(next, jobs.Skipped, result.Reason)), true)
		return
	}
	r.reservations++
	r.active = append(r.active, reader{next, result.Token, length})
}

// pass ends the readers that have read for long enough.
func (r *readers) pass(d time.Duration) {
	r.c.Helper()
	var active []reader
	for _, a := range r.active {
		if a.left -= d; a.left > 0 {
			active = append(active, a)
			continue
		}
		r.c.finished(a.StartRequest, a.token, jobs.Succeeded)
	}
	r.active = active
}
