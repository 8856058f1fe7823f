package jobstest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var waiterRules = []rule{
	{"a younger firing yields to an older waiter", func(c *check) {
		q := c.queue(table("s/t"))
		q.free()
		c.blocked(q.two, q.younger, reasons.OlderWaiter, q.older)
		c.granted(q.one, q.older)
		c.blocked(q.two, q.younger, reasons.LockHeld, q.older)
	}},
	{"a younger firing on a table yields to an older waiter on its schema", func(c *check) {
		q := c.queue(table("s"))
		q.younger.Requests = []locking.Request{table("s/other")}
		q.free()
		c.blocked(q.two, q.younger, reasons.OlderWaiter, q.older)
	}},
	{"a younger firing on a schema yields to an older waiter on its table", func(c *check) {
		q := c.queue(table("s/t"))
		q.younger.Requests = []locking.Request{table("s")}
		q.free()
		c.blocked(q.two, q.younger, reasons.OlderWaiter, q.older)
	}},
	{"the smaller run id goes first if two waiters have the same age", func(c *check) {
		q := c.queue(table("s/t"))
		q.younger.WaitSince = q.older.WaitSince
		q.free()
		if bytes.Compare(q.older.Run[:], q.younger.Run[:]) < 0 {
			c.blocked(q.two, q.younger, reasons.OlderWaiter, q.older)
		} else {
			c.granted(q.two, q.younger)
		}
	}},
	{"the age of a waiter counts from its first record", func(c *check) {
		q := c.queue(table("s/t"))
		again := q.older
		again.WaitSince = again.WaitSince.Add(time.Hour)
		c.blocked(q.one, again, reasons.LockHeld, q.holder)
		q.free()
		c.blocked(q.two, q.younger, reasons.OlderWaiter, q.older)
	}},
	{"an older waiter without a conflict does not block", func(c *check) {
		q := c.queue(shared("s/t"))
		q.younger.Requests = []locking.Request{shared("s/t")}
		q.free()
		c.granted(q.two, q.younger)
	}},
	{"an older firing does not yield to a younger waiter", func(c *check) {
		q := c.queue(table("s/t"))
		oldest := request("oldest", 0, table("s/t"))
		q.free()
		c.granted(q.two, oldest)
	}},
	{"an older waiter of an expired session does not block", func(c *check) {
		q := c.queue(table("s/t"))
		q.free()
		c.Expire(q.one)
		c.granted(q.two, q.younger)
	}},
	{"an older waiter of an ended session does not block", func(c *check) {
		q := c.queue(table("s/t"))
		q.free()
		c.must(c.Store.End(c.ctx, q.one))
		c.granted(q.two, q.younger)
	}},
	{"a skipped waiter does not block", func(c *check) {
		q := c.queue(table("s/t"))
		q.free()
		equal(c, "skip", c.note(q.one, noteOf(q.older, jobs.Skipped, reasons.LockHeld)), true)
		c.granted(q.two, q.younger)
	}},
	{"a withdrawn waiter does not block and keeps its position for its return", func(c *check) {
		q := c.queue(table("s/t"))
		q.free()
		withdrawn := noteOf(q.older, jobs.Waiting, reasons.NoWorker)
		withdrawn.Requests = nil
		// the position counts from its first record
		withdrawn.WaitSince = withdrawn.WaitSince.Add(time.Hour)
		equal(c, "withdrawal", c.note(q.one, withdrawn), true)
		waits := c.record(q.older.Run, jobs.Waiting)
		if waits.Reason != reasons.NoWorker || waits.BlockedBy != nil ||
			!waits.WaitSince.Equal(q.older.WaitSince) {
			c.Errorf("withdrawn run %+v", waits)
		}
		token := c.granted(q.two, q.younger)
		youngest := request("youngest", 4, table("s/t"))
		c.blocked(q.two, youngest, reasons.LockHeld, q.younger)
		back := q.older
		back.WaitSince = withdrawn.WaitSince
		c.blocked(q.one, back, reasons.LockHeld, q.younger)
		c.finished(q.younger, token, jobs.Succeeded)
		c.blocked(q.two, youngest, reasons.OlderWaiter, q.older)
		c.granted(q.one, back)
	}},
	{"a new note of a waiter replaces its requests", func(c *check) {
		one, two := c.session("one"), c.session("two")
		older := request("older", 1, table("s/t"), table("s/u"))
		equal(c, "note", c.note(one, noteOf(older, jobs.Waiting, reasons.LockHeld)), true)
		older.Requests = []locking.Request{table("s/u"), table("s/v")}
		equal(c, "note", c.note(one, noteOf(older, jobs.Waiting, reasons.LockHeld)), true)
		c.granted(two, request("younger", 2, table("s/t")))
		c.blocked(two, request("younger", 3, table("s/u")), reasons.OlderWaiter, older)
		c.blocked(two, request("younger", 4, table("s/v")), reasons.OlderWaiter, older)
	}},
	{"a waiter that was granted and ended does not block", func(c *check) {
		q := c.queue(table("s/t"))
		q.free()
		c.finished(q.older, c.granted(q.one, q.older), jobs.Succeeded)
		c.granted(q.two, q.younger)
	}},
	{"a waiter that was only noted blocks", func(c *check) {
		one, two := c.session("one"), c.session("two")
		older, younger := request("older", 1, table("s/t")), request("younger", 2, table("s/t"))
		equal(c, "note", c.note(one, noteOf(older, jobs.Waiting, reasons.LockHeld)), true)
		c.blocked(two, younger, reasons.OlderWaiter, older)
		c.granted(one, older)
	}},
	{"a run that waits for its next attempt does not block", func(c *check) {
		one, two := c.session("one"), c.session("two")
		first, second := request("a", 1, table("s/t")), request("b", 2, table("s/t"))
		c.finished(first, c.granted(one, first), jobs.Waiting)
		c.granted(two, second)
	}},
	{"a waiting run without a session does not block", func(c *check) {
		s := c.session("one")
		c.register("h", "a")
		_, err := c.trigger("a", "")
		c.must(err)
		c.granted(s, request("b", 1, ownName("a")))
	}},
	{"a waiter that is granted a slot uses one", func(c *check) {
		s := c.session("one")
		holders := []storage.StartRequest{request("x", 1, slot("api", 2)),
			request("y", 1, slot("api", 2))}
		older, younger := request("older", 2, slot("api", 2)), request("younger", 3, slot("api", 2))
		tokens := []jobs.Token{c.granted(s, holders[0]), c.granted(s, holders[1])}
		c.blocked(s, older, reasons.LockHeld, holders[0])
		for i, h := range holders {
			c.finished(h, tokens[i], jobs.Succeeded)
		}
		for i, result := range c.start(s, older, younger) {
			equal(c, fmt.Sprint("outcome ", i), result.Outcome, storage.StartGranted)
		}
	}},
	{"older waiters leave unneeded slots to younger ones", func(c *check) {
		s := c.session("one")
		older, younger, youngest := request("older", 1, slot("api", 2)),
			request("younger", 2, slot("api", 2)), request("youngest", 3, slot("api", 2))
		equal(c, "note", c.note(s, noteOf(older, jobs.Waiting, reasons.LockHeld)), true)
		c.granted(s, younger)
		result := c.start(s, youngest)[0]
		equal(c, "outcome of the youngest", result.Outcome, storage.StartBlocked)
		c.granted(s, older)
	}},
	{"older waiters can use up all slots", func(c *check) {
		s := c.session("one")
		older, younger := request("older", 1, slot("api", 1)), request("younger", 2, slot("api", 1))
		equal(c, "note", c.note(s, noteOf(older, jobs.Waiting, reasons.LockHeld)), true)
		c.blocked(s, younger, reasons.OlderWaiter, older)
	}},
	{"the waiters of a batch are served by age", func(c *check) {
		q := c.queue(table("s/t"))
		c.blocked(q.one, q.younger, reasons.LockHeld, q.holder)
		q.free()
		results := c.start(q.one, q.younger, q.older)
		equal(c, "younger", results[0].Outcome, storage.StartBlocked)
		equal(c, "older", results[1].Outcome, storage.StartGranted)
	}},
}

// queue is a run that holds a table, and an older and a younger firing that want it. Only the older
// one is recorded as waiting.
type queue struct {
	c                      *check
	one, two               uuid.UUID // the sessions of the older and the younger firing
	holder, older, younger storage.StartRequest
	token                  jobs.Token
}

func (c *check) queue(wanted ...locking.Request) queue {
	c.Helper()
	q := queue{c: c, one: c.session("one"), two: c.session("two")}
	q.holder, q.older, q.younger = request("holder", 1, table("s/t")),
		request("older", 2, wanted...), request("younger", 3, wanted...)
	q.token = c.granted(c.session("three"), q.holder)
	c.blocked(q.one, q.older, reasons.LockHeld, q.holder)
	return q
}

// free ends the holder.
func (q queue) free() {
	q.c.Helper()
	q.c.finished(q.holder, q.token, jobs.Succeeded)
}
