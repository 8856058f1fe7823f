package jobstest

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// triggerAdopterRules are about triggers whose runs a session adopts as soon as they are added.
var triggerAdopterRules = []rule{
	{"the run of a trigger belongs to the adopter that the request names", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		answer := c.triggeredFor(one, storage.TriggerRequest{Job: "a"})
		equal(c, "created", answer.Created, true)
		equal(c, "replica", answer.Replica, "one")
		c.same(c.record(answer.ID, jobs.Waiting), answer.Record)
		equal(c, "adopted by another", len(c.adopt(two, 10, "a")), 0)
		r := c.startOf(answer)
		c.outcome(two, r, storage.StartDuplicate)
		equal(c, "adopted by a session that knows it", len(c.adoptKnowing(one,
			[]uuid.UUID{r.Run}, 10, "a")), 0)
		token := c.granted(one, r)
		equal(c, "adopted while it runs", len(c.adopt(two, 10, "a")), 0)
		c.finished(r, token, jobs.Succeeded)
	}},
	{"an adopter whose trigger lost its reply gets the run with its next adoption",
		func(c *check) {
			c.register("h", "a")
			one := c.session("one")
			answer := c.triggeredFor(one, storage.TriggerRequest{Job: "a"})
			adopted := c.adoptKnowing(one, nil, 0, "a")
			if len(adopted) != 1 {
				c.Fatalf("adopted %+v", adopted)
			}
			c.same(adopted[0], answer.Record)
		}},
	{"other sessions adopt a triggered run when its adopter has ended", func(c *check) {
		c.register("h", "a")
		for _, end := range []func(uuid.UUID){
			func(s uuid.UUID) { c.must(c.Store.End(c.ctx, s)) },
			func(s uuid.UUID) { c.Expire(s); c.sweep() },
		} {
			one, two := c.session("one"), c.session("two")
			r := c.startOf(c.triggeredFor(one, storage.TriggerRequest{Job: "a"}))
			end(one)
			c.adopts(two, r)
			c.outcome(one, r, storage.StartNotLive)
			c.finished(r, c.granted(two, r), jobs.Succeeded)
		}
	}},
	{"other sessions adopt a triggered run when its adopter is drained", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		r := c.startOf(c.triggeredFor(one, storage.TriggerRequest{Job: "a"}))
		c.drain(one, true)
		c.adopts(two, r)
		c.outcome(one, r, storage.StartDuplicate)
		c.granted(two, r)
	}},
	{"a session that cannot adopt runs gets no triggered run", func(c *check) {
		c.register("h", "a")
		drained, ended, expired := c.session("drained"), c.session("ended"), c.session("expired")
		c.drain(drained, true)
		c.must(c.Store.End(c.ctx, ended))
		c.Expire(expired)
		for _, s := range []uuid.UUID{drained, ended, expired, uuid.New()} {
			answer := c.triggeredFor(s, storage.TriggerRequest{Job: "a"})
			equal(c, "replica", answer.Replica, "")
			r := c.startOf(answer)
			c.adopts(c.session("two"), r)
		}
	}},
	{"nobody adopts a run for a later time when it is triggered", func(c *check) {
		c.register("h", "a")
		one := c.session("one")
		for _, r := range []storage.TriggerRequest{{Job: "a", Delay: time.Hour},
			{Job: "a", At: c.now().Add(time.Hour)}} {
			answer := c.triggeredFor(one, r)
			equal(c, "replica", answer.Replica, "")
			equal(c, "adopted", len(c.adopt(one, 10, "a")), 0)
		}
		past := c.triggeredFor(one, storage.TriggerRequest{Job: "a", At: c.now().Add(-time.Hour)})
		equal(c, "replica of a run for a past time", past.Replica, "one")
	}},
	{"a key that has a run has no other adopter", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		first := c.triggeredFor(one, storage.TriggerRequest{Job: "a", Key: "k"})
		again := c.triggeredFor(two, storage.TriggerRequest{Job: "a", Key: "k"})
		equal(c, "created", again.Created, false)
		c.same(again.Record, first.Record)
		c.outcome(two, c.startOf(first), storage.StartDuplicate)
		c.granted(one, c.startOf(first))
	}},
	{"a refused trigger has no adopter", func(c *check) {
		c.register("h", "a")
		one := c.session("one")
		c.pause(jobA)
		_, err := c.Store.Trigger(c.ctx, action, storage.TriggerRequest{Job: "a", Adopter: one})
		c.refused("a paused job", err, storage.ErrPaused)
		equal(c, "runs", len(c.runs(storage.RunFilter{})), 0)
		answer := c.triggeredFor(one, storage.TriggerRequest{Job: "a", EvenPaused: true})
		c.granted(one, c.startOf(answer))
	}},
	{"a trigger without waiting has an adopter", func(c *check) {
		c.register("h", "a")
		one := c.session("one")
		wait := storage.TriggerRequest{Job: "a", Wait: new(time.Duration)}
		answer := c.triggeredFor(one, wait)
		equal(c, "replica", answer.Replica, "one")
		wait.Adopter = one
		_, err := c.Store.Trigger(c.ctx, action, wait)
		c.refused("a second one", err, storage.ErrBusy)
		c.granted(one, c.startOf(answer))
	}},
	{"a run with an adopter waits for locks like others", func(c *check) {
		c.defined("h", map[string][]locking.Request{"a": {table("s")}})
		one, two := c.session("one"), c.session("two")
		holder := request("holder", 1, table("s/t"))
		token := c.granted(two, holder)
		answer := c.triggeredFor(one, storage.TriggerRequest{Job: "a"})
		c.waitsFor(answer.WaitsFor, reasons.LockHeld, table("s/t"), holder, false)
		r := c.startOf(answer, table("s"))
		c.blocked(one, r, reasons.LockHeld, holder)
		c.finished(holder, token, jobs.Succeeded)
		c.granted(one, r)
	}},
	{"a run with an adopter does not pass an earlier trigger without one", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		first := c.startOf(c.triggered("a", "k", nil))
		second := c.startOf(c.triggeredFor(one, storage.TriggerRequest{Job: "a"}))
		c.blocked(one, second, reasons.OlderWaiter, first)
		c.adopts(two, first)
		c.finished(first, c.granted(two, first), jobs.Succeeded)
		c.granted(one, second)
	}},
}

// triggeredFor triggers for the adopter, with an id of the caller's, which must be accepted.
func (c *check) triggeredFor(adopter uuid.UUID, r storage.TriggerRequest) storage.Triggered {
	c.Helper()
	r.Adopter, r.Run = adopter, uuid.New()
	answer, err := c.Store.Trigger(c.ctx, action, r)
	c.must(err)
	if answer.Created != (answer.ID == r.Run) {
		c.Errorf("created run %s: %t, asked for run %s", answer.ID, answer.Created, r.Run)
	}
	return answer
}
