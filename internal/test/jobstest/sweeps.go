package jobstest

import (
	"slices"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var sweepRules = []rule{
	{"a sweep ends the runs of an expired session as lost", func(c *check) {
		one, two := c.session("one"), c.session("two")
		lost, live := request("a", 1, path("p"), slot("api", 3), shared("s/a")),
			request("b", 1, table("s/b"))
		token := c.granted(one, lost)
		c.granted(two, live)
		c.Expire(one)
		swept := c.sweep()
		if !slices.Equal(swept.Sessions, []string{"one"}) || len(swept.Lost) != 1 {
			c.Fatalf("swept %+v, want session one and its run", swept)
		}
		got := swept.Lost[0]
		if !slices.Equal(got.Held, lost.Requests) {
			c.Errorf("held %+v, want %+v", got.Held, lost.Requests)
		}
		if got.ID != lost.Run || got.Job != "a" ||
			!got.ScheduledAt.Equal(lost.Firing.ScheduledAt) || got.Replica != "one" ||
			got.Token != token || got.State != jobs.Lost {
			c.Errorf("lost %+v", got)
		}
		record := c.record(lost.Run, jobs.Lost)
		equal(c, "reason", record.Reason, reasons.SessionLost)
		if record.FinishedAt == nil {
			c.Error("a lost run has no end time")
		}
		c.record(live.Run, jobs.Running)
		equal(c, "locks", len(c.locks()), 1)
		if c.replica(one).EndedAt == nil || c.replica(two).EndedAt != nil {
			c.Error("a sweep did not end exactly the expired sessions")
		}
	}},
	{"a sweep frees the locks of an expired session", func(c *check) {
		one, two := c.session("one"), c.session("two")
		dead, next := request("a", 1, table("s/t"), ownName("a")),
			request("a", 2, table("s/t"), ownName("a"))
		c.granted(one, dead)
		c.Expire(one)
		c.sweep()
		c.granted(two, next)
	}},
	{"a lost run cannot be finished", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.Expire(s)
		c.sweep()
		equal(c, "finish", c.finish(r, token, jobs.Succeeded), false)
		c.record(r.Run, jobs.Lost)
	}},
	{"a second sweep does nothing", func(c *check) {
		s := c.session("one")
		c.granted(s, request("a", 1))
		c.Expire(s)
		equal(c, "lost", len(c.sweep().Lost), 1)
		if swept := c.sweep(); len(swept.Sessions) != 0 || len(swept.Lost) != 0 {
			c.Errorf("swept again %+v", swept)
		}
	}},
	{"a sweep does not change live sessions", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		if swept := c.sweep(); len(swept.Sessions) != 0 || len(swept.Lost) != 0 {
			c.Errorf("swept %+v", swept)
		}
		c.finished(r, token, jobs.Succeeded)
	}},
	{"waiting runs of an expired session can be adopted", func(c *check) {
		one, two := c.session("one"), c.session("two")
		holder, waiter := request("a", 1, table("s/t")), request("b", 1, table("s/t"))
		c.granted(two, holder)
		c.blocked(one, waiter, reasons.LockHeld, holder)
		c.Expire(one)
		equal(c, "lost", len(c.sweep().Lost), 0)
		c.record(waiter.Run, jobs.Waiting)
		adopted := c.adopt(two, 10, "b")
		if len(adopted) != 1 || adopted[0].ID != waiter.Run {
			c.Errorf("adopted %+v, want run %s", adopted, waiter.Run)
		}
	}},
	{"one sweep ends many sessions with many runs", func(c *check) {
		c.recovering("one")
		want := 0
		for _, name := range []string{"one", "two", "three"} {
			s := c.session(name)
			requests := make([]storage.StartRequest, 50)
			for i := range requests {
				requests[i] = request(name, i, shared("s"))
				want++
			}
			c.start(s, requests...)
			c.Expire(s)
		}
		lost := 0
		for range 3 { // a sweep skips sessions that another sweep has locked
			lost += len(c.sweep().Lost)
		}
		equal(c, "lost", lost, want)
		equal(c, "locks", len(c.locks()), 0)
		equal(c, "successors", len(c.adopt(c.session("four"), 1000, "one", "two", "three")), 50)
	}},
}
