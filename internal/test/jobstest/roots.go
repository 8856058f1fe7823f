package jobstest

import (
	"reflect"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var rootRules = []rule{
	{"a start blocked by a holder has no root", func(c *check) {
		q := c.queue(table("s/t"))
		b := c.record(q.older.Run, jobs.Waiting).BlockedBy
		if b == nil || b.Waiting || b.Root != (jobs.Root{}) {
			c.Errorf("the blocker %+v of one that a holder refused", b)
		}
	}},
	{"a start blocked by a waiter has the holder as its root", func(c *check) {
		q := c.queue(table("s"))
		q.younger.Requests = []locking.Request{table("s/other")}
		c.behind(q, q.younger, q.older, q.holder, table("s/t"))
	}},
	{"the root of a chain of waiters is its holder", func(c *check) {
		q := c.queue(table("s/t"), table("s/u"))
		second := request("second", 3, table("s/u"), table("s/v"))
		c.behind(q, second, q.older, q.holder, table("s/t"))
		third := request("third", 4, table("s/v"))
		c.behind(q, third, second, q.holder, table("s/t"))
	}},
	{"a chain whose holder has ended has no root", func(c *check) {
		q := c.queue(table("s"))
		q.free()
		q.younger.Requests = []locking.Request{table("s/other")}
		b := c.blocked(q.two, q.younger, reasons.OlderWaiter, q.older)
		if !b.Waiting || b.Root != (jobs.Root{}) {
			c.Errorf("the blocker %+v of a chain that nothing holds up", b)
		}
	}},
	{"a waiter that was only noted has no root", func(c *check) {
		one, two := c.session("one"), c.session("two")
		older, younger := request("older", 1, table("s/t")), request("younger", 2, table("s/t"))
		equal(c, "note", c.note(one, noteOf(older, jobs.Waiting, reasons.LockHeld)), true)
		b := c.blocked(two, younger, reasons.OlderWaiter, older)
		if !b.Waiting || b.Root != (jobs.Root{}) {
			c.Errorf("the blocker %+v of a waiter that was never refused", b)
		}
	}},
	{"a skipped run keeps its root", func(c *check) {
		q := c.queue(table("s"))
		q.younger.Requests = []locking.Request{table("s/other")}
		c.behind(q, q.younger, q.older, q.holder, table("s/t"))
		skip := noteOf(q.younger, jobs.Skipped, reasons.OlderWaiter)
		skip.Blocker = c.record(q.younger.Run, jobs.Waiting).BlockedBy
		equal(c, "skip", c.note(q.two, skip), true)
		if b := c.record(q.younger.Run, jobs.Skipped).
			BlockedBy; !reflect.DeepEqual(b, skip.Blocker) {
			c.Errorf("skipped with the blocker %+v, want %+v", b, skip.Blocker)
		}
	}},
}

// behind checks that a waiter blocks r, that its root holds the resource, and that the run's record
// says so.
func (c *check) behind(q queue, r, waiter, root storage.StartRequest, held locking.Request) {
	c.Helper()
	b := c.blocked(q.two, r, reasons.OlderWaiter, waiter)
	if !b.Waiting || b.Root.Holder.Run != root.Run.String() ||
		b.Root.Holder.Job != root.Firing.Job || b.Root.Resource != held.Resource.String() {
		c.Errorf("%s is blocked by %+v, want the root %s with %s", r.Firing.Job, b, root.Run,
			held.Resource)
	}
	if recorded := c.record(r.Run, jobs.Waiting).BlockedBy; !reflect.DeepEqual(recorded, b) {
		c.Errorf("%s is recorded as blocked by %+v, want %+v", r.Firing.Job, recorded, b)
	}
}
