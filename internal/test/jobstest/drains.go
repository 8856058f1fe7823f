package jobstest

import (
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// replicas returns the names of the listed sessions.
func (c *check) replicas() string {
	c.Helper()
	list, err := c.Store.Replicas(c.ctx)
	c.must(err)
	var names []string
	for _, r := range list {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func (c *check) drain(session uuid.UUID, drain bool) {
	c.Helper()
	c.must(c.Store.Drain(c.ctx, action, session, drain))
}

var drainRules = []rule{
	{"a drained session starts nothing until the drain ends", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		c.drain(one, true)
		equal(c, "draining", c.controlState(one, -1).Draining, true)
		equal(c, "the other drains", c.controlState(two, -1).Draining, false)
		r, byHand := request("a", 1), request("a", 2)
		byHand.Firing.Key = "k"
		c.outcome(one, r, storage.StartPaused)
		c.outcome(one, byHand, storage.StartPaused)
		c.noRun(r)
		c.noRun(byHand)
		r.Run = uuid.New()
		c.granted(two, r)
		c.drain(one, false)
		equal(c, "draining", c.controlState(one, -1).Draining, false)
		c.granted(one, request("a", 3))
		replicas, err := c.Store.Replicas(c.ctx)
		c.must(err)
		for _, v := range replicas {
			equal(c, "draining", v.Draining, false)
		}
	}},
	{"runs of a drained session continue, with their further attempts", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.drain(s, true)
		equal(c, "token of the resent request", c.granted(s, r), token)
		c.finished(r, token, jobs.Waiting)
		r.Attempt = 2
		c.finished(r, c.granted(s, r), jobs.Succeeded)
	}},
	{"a triggered run that a drain holds back is not shown as paused", func(c *check) {
		c.register("h", "a")
		one := c.session("one")
		triggered, err := c.trigger("a", "k")
		c.must(err)
		c.pause(jobA)
		equal(c, "adopted", len(c.adopt(one, 10, "a")), 1)
		c.drain(one, true)
		r := request("a", 1)
		r.Run, r.Firing = triggered.ID, storage.Firing{Job: "a", Key: "k",
			ScheduledAt: triggered.ScheduledAt}
		c.outcome(one, r, storage.StartPaused)
		held, err := c.Store.Run(c.ctx, r.Run)
		c.must(err)
		equal(c, "reason", held.Reason, reasons.Triggered)
	}},
	{"a triggered run that a drain holds back keeps its position in its job", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		first := c.startOf(c.triggered("a", "1", nil), table("s/t"))
		c.adopts(one, first)
		second := c.startOf(c.triggered("a", "2", nil), table("s/t"))
		c.drain(one, true)
		c.outcome(one, first, storage.StartPaused)
		equal(c, "adopted", len(c.adopt(two, 10, "a")), 2)
		c.blocked(two, second, reasons.OlderWaiter, first)
		c.finished(first, c.granted(two, first), jobs.Succeeded)
		c.granted(two, second)
	}},
	{"only later runs of its job wait behind a triggered run that a drain holds back",
		func(c *check) {
			c.register("h", "a")
			one, two := c.session("one"), c.session("two")
			holder := request("holder", 1, table("s/t"))
			token := c.granted(two, holder)
			first := c.startOf(c.triggered("a", "1", nil), table("s/t"))
			c.adopts(one, first)
			c.blocked(one, first, reasons.LockHeld, holder)
			c.drain(one, true)
			c.outcome(one, first, storage.StartPaused)
			c.finished(holder, token, jobs.Succeeded)
			other := request("other", 2, table("s/t"))
			c.finished(other, c.granted(two, other), jobs.Succeeded)
			later := c.startOf(c.triggered("a", "2", nil))
			equal(c, "adopted", len(c.adopt(two, 10, "a")), 2)
			c.blocked(two, later, reasons.OlderWaiter, first)
		}},
	{"other sessions adopt the waiting runs of a drained session",
		func(c *check) {
			c.register("h", "a", "b")
			one, two := c.session("one"), c.session("two")
			before, asked, tried := c.waiting(one, "a", 1), c.waiting(one, "b", 2), request("b", 1)
			c.finished(tried, c.granted(one, tried), jobs.Waiting)
			c.drain(one, true)
			triggered, err := c.trigger("a", "k")
			c.must(err)
			c.outcome(one, asked, storage.StartPaused)
			equal(c, "adopted by the draining", len(c.adopt(one, 10, "a", "b")), 0)
			equal(c, "adopted by another", ids(c.adopt(two, 10, "a", "b")),
				ids([]storage.Record{{ID: before.Run}, {ID: asked.Run}, {ID: triggered.ID}}))
			c.granted(two, before)
			c.outcome(one, before, storage.StartDuplicate)
		}},
	{"a firing that a drained session has not started is left to others", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		firing := request("a", 1, table("s/t"))
		c.drain(one, true)
		c.outcome(one, firing, storage.StartPaused)
		equal(c, "note", c.note(one, noteOf(firing, jobs.Waiting, reasons.Shutdown)), true)
		equal(c, "adopted by the draining", len(c.adopt(one, 10, "a")), 0)
		equal(c, "adopted", len(c.adopt(two, 10, "a")), 1)
		c.granted(two, firing)
	}},
	{"only a live session can be drained", func(c *check) {
		c.refused("an unknown session", c.Store.Drain(c.ctx, action, uuid.New(), true),
			storage.ErrNotFound)
		s := c.session("one")
		c.Expire(s)
		c.refused("an expired session", c.Store.Drain(c.ctx, action, s, true), storage.ErrNotFound)
		s = c.session("two")
		c.must(c.Store.End(c.ctx, s))
		c.refused("an ended session", c.Store.Drain(c.ctx, action, s, true), storage.ErrNotFound)
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 0)
	}},
	{"a removed replica is not listed until it starts again", func(c *check) {
		var lost [2]uuid.UUID
		for i := range lost {
			lost[i] = c.session("lost")
			c.granted(lost[i], request("a", i+1))
			c.Expire(lost[i])
			c.sweep()
		}
		other := c.session("other")
		equal(c, "replicas", c.replicas(), "lost lost other")
		remove := action
		remove.Key = "once"
		for range 2 { // with its key it happens once
			c.must(c.Store.RemoveReplica(c.ctx, remove, lost[0]))
		}
		equal(c, "replicas", c.replicas(), "other")
		entries := c.audit(storage.AuditFilter{})
		equal(c, "audit entries", len(entries), 1)
		equal(c, "audited", entries[0].Action+" of "+entries[0].Target,
			"remove_replica of replica lost")
		c.refused("a removed session", c.Store.RemoveReplica(c.ctx, action, lost[1]),
			storage.ErrNotFound)
		c.session("lost")
		equal(c, "replicas", c.replicas(), "lost other")
		c.granted(other, request("b", 1))
	}},
	{"only a lost replica can be removed", func(c *check) {
		c.refused("an unknown session", c.Store.RemoveReplica(c.ctx, action, uuid.New()),
			storage.ErrNotFound)
		s := c.session("one")
		c.granted(s, request("a", 1))
		c.refused("a live session", c.Store.RemoveReplica(c.ctx, action, s), storage.ErrNotFound)
		c.Expire(s)
		c.refused("a session that was not swept", c.Store.RemoveReplica(c.ctx, action, s),
			storage.ErrNotFound)
		s = c.session("two")
		c.must(c.Store.End(c.ctx, s))
		c.refused("a session that its replica ended", c.Store.RemoveReplica(c.ctx, action, s),
			storage.ErrNotFound)
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 0)
	}},
}
