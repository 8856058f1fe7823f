package jobstest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// positionRules test the order of runs when workers or the slots of a group are all in use.
var positionRules = []rule{
	{"a level of priority counts as a minute of waiting", func(c *check) {
		low, middling, high := c.waitedFor("low", 2*time.Minute+time.Second),
			c.waitedFor("middling", 0), c.waitedFor("high", -90*time.Second)
		s := c.session("one")
		a := Adoption(nil, 1, "low", "middling", "high")
		a.Jobs[0].Priority, a.Jobs[2].Priority = 3, 7
		for _, want := range []uuid.UUID{high, low, middling} {
			got, err := c.Store.Adopt(c.ctx, s, a)
			c.must(err)
			if len(got) != 1 || got[0].ID != want {
				c.Fatalf("adopted %+v, want run %s", got, want)
			}
			a.Known = append(a.Known, want)
		}
	}},
	{"late runs have their own limit and are adopted first", func(c *check) {
		a := Adoption(nil, 4, "late", "later", "latest", "prompt")
		for i := range 3 {
			a.Jobs[i].Threshold = time.Hour
		}
		a.Late = 2
		first, second, third := c.waitedFor("late", 3*time.Minute),
			c.waitedFor("later", 2*time.Minute), c.waitedFor("latest", time.Minute)
		manual := c.waitedFor("prompt", time.Hour)
		s := c.session("one")
		got, err := c.Store.Adopt(c.ctx, s, a)
		c.must(err)
		ids := idsOf(got)
		if len(got) != 3 || !ids[first] || !ids[second] || !ids[manual] {
			c.Errorf("adopted %+v, want two late runs and the other", got)
		}
		a.Known, a.Late = []uuid.UUID{first, second, manual}, 0
		got, err = c.Store.Adopt(c.ctx, s, a)
		c.must(err)
		equal(c, "adopted without room for late ones", len(got), 0)
		a.Late = 1
		got, err = c.Store.Adopt(c.ctx, s, a)
		c.must(err)
		if len(got) != 1 || got[0].ID != third {
			c.Errorf("adopted %+v, want the last late run", got)
		}
	}},
	{"late runs of a job are adopted one by one in their order", func(c *check) {
		gone, one, two := c.session("gone"), c.session("one"), c.session("two")
		var line []storage.StartRequest
		for n := range 3 {
			line = append(line, request("job", n))
		}
		for _, i := range []int{1, 0, 2} { // the second one has waited for longest
			r := line[i]
			r.WaitSince = epoch
			equal(c, "note", c.note(gone, noteOf(r, jobs.Waiting, reasons.Misfire)), true)
		}
		manual, recovery := request("job", 3), request("job", 4)
		manual.Firing.Key, recovery.Firing.Recovery = "k", 1
		for _, r := range []storage.StartRequest{manual, recovery} {
			equal(c, "note", c.note(gone, noteOf(r, jobs.Waiting, reasons.LockHeld)), true)
		}
		c.must(c.Store.End(c.ctx, gone))
		a := Adoption(nil, 5, "job")
		a.Jobs[0].Threshold = time.Second
		adopts := func(session uuid.UUID, want ...uuid.UUID) {
			c.Helper()
			got, err := c.Store.Adopt(c.ctx, session, a)
			c.must(err)
			ids := idsOf(got)
			if len(got) != len(want) ||
				slices.ContainsFunc(want, func(id uuid.UUID) bool { return !ids[id] }) {
				c.Fatalf("adopted %+v, want %v", got, want)
			}
			a.Known = append(a.Known, want...)
		}
		adopts(one, line[0].Run, manual.Run, recovery.Run)
		adopts(two)
		token := c.granted(one, line[0])
		adopts(two, line[1].Run)
		adopts(one)
		c.finished(line[0], token, jobs.Succeeded)
		adopts(one)
		c.granted(two, line[1])
		adopts(one, line[2].Run)
	}},
	{"late runs can use the whole limit", func(c *check) {
		a := Adoption(nil, 1, "late", "prompt")
		a.Jobs[0].Threshold = time.Hour
		late := c.waitedFor("late", 0)
		c.waitedFor("prompt", time.Hour)
		got, err := c.Store.Adopt(c.ctx, c.session("one"), a)
		c.must(err)
		if len(got) != 1 || got[0].ID != late {
			c.Errorf("adopted %+v, want the late run", got)
		}
	}},
	{"triggered runs and recoveries are never late", func(c *check) {
		s := c.session("gone")
		manual, recovery := request("a", 1), request("a", 1)
		manual.Firing.Key, recovery.Firing.Recovery = "k", 1
		for _, r := range []storage.StartRequest{manual, recovery} {
			equal(c, "note", c.note(s, noteOf(r, jobs.Waiting, reasons.LockHeld)), true)
		}
		c.must(c.Store.End(c.ctx, s))
		a := Adoption(nil, 5, "a")
		a.Jobs[0].Threshold, a.Late = time.Second, 0
		got, err := c.Store.Adopt(c.ctx, c.session("one"), a)
		c.must(err)
		equal(c, "adopted", len(got), 2)
	}},
	{"a group is full by the limit of each request", func(c *check) {
		s := c.session("one")
		group := func(slots int) locking.Request {
			return ask(locking.KindGroup, "night", locking.Slotted, slots)
		}
		first, second, third := request("a", 1, group(2)), request("b", 2, group(2)),
			request("c", 3, group(2))
		token := c.granted(s, first)
		c.granted(s, second)
		blocker := c.blocked(s, third, reasons.GroupFull, first)
		equal(c, "blocker", blocker.Resource, "group:night")
		more := request("d", 2, group(3))
		c.granted(s, more)
		c.finished(first, token, jobs.Succeeded)
		c.outcome(s, third, storage.StartBlocked)
	}},
	{"waiters for a slot of a group are served in order", func(c *check) {
		s := c.session("one")
		group := ask(locking.KindGroup, "night", locking.Slotted, 1)
		first, second, third := request("a", 1, group), request("b", 2, group),
			request("c", 3, group)
		token := c.granted(s, first)
		c.blocked(s, second, reasons.GroupFull, first)
		c.finished(first, token, jobs.Succeeded)
		c.blocked(s, third, reasons.OlderWaiter, second)
		c.granted(s, second)
	}},
	{"a group does not conflict with other kinds of its name", func(c *check) {
		s := c.session("one")
		c.granted(s, request("a", 1, ask(locking.KindGroup, "night", locking.Slotted, 1)))
		c.granted(s, request("b", 1, slot("night", 1), table("night"), path("night"),
			ownName("night")))
	}},
	{"runs behind the oldest waiter of their job are reported as queued",
		func(c *check) {
			s := c.session("one")
			own := ownName("a")
			running, older, younger := request("a", 1, own), request("a", 2, own),
				request("a", 3, own)
			token := c.granted(s, running)
			for range 2 {
				c.queued(s, older, false)
				c.queued(s, younger, true)
			}
			equal(c, "skip", c.note(s, noteOf(older, jobs.Skipped, reasons.Overlap)), true)
			c.queued(s, younger, false)
			c.finished(running, token, jobs.Succeeded)
			c.granted(s, younger)
		}},
	{"a run without a live session is not in the queue", func(c *check) {
		s, gone := c.session("one"), c.session("gone")
		own := ownName("a")
		c.granted(s, request("a", 1, own))
		c.queued(gone, request("a", 2, own), false)
		c.must(c.Store.End(c.ctx, gone))
		c.queued(s, request("a", 3, own), false)
	}},
	{"runs behind the oldest waiter for another job are reported as queued", func(c *check) {
		s := c.session("one")
		own := ownName("a")
		holder := request("b", 1, table("s/t"))
		older, younger, alone := request("a", 2, own, table("s/t")),
			request("a", 3, own, table("s/t")), request("c", 4, table("s/t"))
		token := c.granted(s, holder)
		for range 2 {
			for _, r := range []storage.StartRequest{older, younger, alone} {
				want := r.Run == younger.Run
				if result := c.start(s, r)[0]; result.Reason != reasons.LockHeld ||
					result.Queued != want {
					c.Errorf("start of the firing of %s at %s: %+v, want it blocked by a lock, "+
						"queued: %v", r.Firing.Job, r.Firing.ScheduledAt, result, want)
				}
			}
		}
		c.finished(holder, token, jobs.Succeeded)
		c.granted(s, older)
	}},
	{"a waiter of another job is not in the queue of the job", func(c *check) {
		s := c.session("one")
		own := ownName("a")
		holder := request("a", 1, own, table("s/t"))
		c.granted(s, holder)
		c.blocked(s, request("b", 2, table("s/t")), reasons.LockHeld, holder)
		c.queued(s, request("a", 3, own, table("s/t")), false)
	}},
}

// waitedFor adds a waiting run of the job without a live session and returns its id. At the epoch
// of the test the run has waited for d.
func (c *check) waitedFor(job string, d time.Duration) uuid.UUID {
	c.Helper()
	s := c.session("gone")
	r := request(job, 0)
	r.Firing.ScheduledAt = epoch.Add(-d)
	r.WaitSince = r.Firing.ScheduledAt
	equal(c, "note", c.note(s, noteOf(r, jobs.Waiting, reasons.LockHeld)), true)
	c.must(c.Store.End(c.ctx, s))
	return r.Run
}

// queued starts the request, which an earlier run of the job must block, and checks whether another
// run already waits for it.
func (c *check) queued(session uuid.UUID, r storage.StartRequest, want bool) {
	c.Helper()
	result := c.start(session, r)[0]
	if result.Outcome != storage.StartBlocked || result.Reason != reasons.Overlap ||
		result.Queued != want {
		c.Errorf("start of the scheduled time at %s: %+v, want it to be blocked by its job, "+
			"and to be queued behind another: %v", r.Firing.ScheduledAt, result, want)
	}
}
