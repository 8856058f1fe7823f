package jobstest

import (
	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// stops reports that the replica of the session is stopping.
func (c *check) stops(session uuid.UUID) {
	c.Helper()
	_, err := c.Store.Heartbeat(c.ctx, session, storage.ReplicaStatus{Stopping: true})
	c.must(err)
}

var stopRules = []rule{
	{"other sessions adopt the waiting runs of a stopping session", func(c *check) {
		c.register("h", "a", "b", "c", "d", "runs")
		one, two := c.session("one"), c.session("two")
		blocked, retried, runs := c.waiting(one, "a", 1), request("b", 1), request("runs", 1)
		c.finished(retried, c.granted(one, retried), jobs.Waiting)
		triggered := c.startOf(c.triggeredFor(one, storage.TriggerRequest{Job: "c"}))
		token := c.granted(one, runs)
		c.stops(one)
		// a firing that was on its way, and another attempt
		later, again := c.waiting(one, "d", 1), runs
		c.finished(runs, token, jobs.Waiting)
		all := []string{"a", "b", "c", "d", "runs"}
		equal(c, "adopted by the stopping", len(c.adoptKnowing(one, nil, 10, all...)), 0)
		equal(c, "adopted by another", ids(c.adopt(two, 10, all...)), ids([]storage.Record{
			{ID: blocked.Run}, {ID: retried.Run}, {ID: triggered.Run}, {ID: later.Run},
			{ID: again.Run}}))
		c.outcome(one, blocked, storage.StartDuplicate)
		equal(c, "note of the stopping",
			c.note(one, noteOf(triggered, jobs.Waiting, reasons.Shutdown)), false)
		retried.Attempt, again.Attempt = 2, 2
		for _, r := range []storage.StartRequest{blocked, retried, triggered, later, again} {
			c.finished(r, c.granted(two, r), jobs.Succeeded)
		}
	}},
	{"a stopping session may note and start its waiting runs", func(c *check) {
		c.register("h", "a", "b")
		one, two := c.session("one"), c.session("two")
		noted, started := c.waiting(one, "a", 1), c.waiting(one, "b", 1)
		c.stops(one)
		equal(c, "note", c.note(one, noteOf(noted, jobs.Waiting, reasons.Shutdown)), true)
		equal(c, "reason", c.record(noted.Run, jobs.Waiting).Reason, reasons.Shutdown)
		token := c.granted(one, started)
		equal(c, "adopted", ids(c.adopt(two, 10, "a", "b")), noted.Run.String())
		c.finished(started, token, jobs.Succeeded)
	}},
	{"no run waits behind the waiting runs of a stopping session", func(c *check) {
		q := c.queue(table("s/t"))
		q.free()
		c.blocked(q.two, q.younger, reasons.OlderWaiter, q.older)
		c.stops(q.one)
		c.granted(q.two, q.younger)
	}},
	{"a later run of the job does not wait behind one of a stopping session", func(c *check) {
		name, err := locking.Job("a")
		c.must(err)
		own := locking.Request{Resource: name, Mode: locking.Exclusive}
		one, two := c.session("one"), c.session("two")
		c.waiting(one, "a", 1, own)
		later := request("a", 2, own)
		c.outcome(two, later, storage.StartBlocked)
		c.stops(one)
		c.granted(two, later)
	}},
	{"a stopping session adopts no triggers", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		c.stops(one)
		answer, err := c.Store.Trigger(c.ctx, action,
			storage.TriggerRequest{Job: "a", Adopter: one})
		c.must(err)
		equal(c, "replica", answer.Replica, "")
		c.adopts(two, c.startOf(answer))
	}},
	{"a waiting end of an attempt is known although another session continues", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		r := request("a", 1)
		token := c.granted(one, r)
		c.stops(one)
		c.finished(r, token, jobs.Waiting)
		equal(c, "adopted", len(c.adopt(two, 10, "a")), 1)
		again := r
		again.Attempt = 2
		next := c.granted(two, again)
		equal(c, "repeated end", c.finish(r, token, jobs.Waiting), true)
		equal(c, "another end", c.finish(r, token, jobs.Succeeded), false)
		c.finished(again, next, jobs.Succeeded)
		equal(c, "repeated after the end", c.finish(r, token, jobs.Waiting), true)
	}},
	{"a session that has ended is not stopping", func(c *check) {
		s := c.session("one")
		c.stops(s)
		equal(c, "stopping", c.replica(s).Stopping, true)
		c.must(c.Store.End(c.ctx, s))
		equal(c, "stopping", c.replica(s).Stopping, false)
	}},
}
