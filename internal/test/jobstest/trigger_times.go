package jobstest

import (
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// triggerTimeRules are about triggers for a later time.
var triggerTimeRules = []rule{
	{"a run for a later time is not adopted before", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		at := c.now().Add(time.Hour)
		answer := c.asked(storage.TriggerRequest{Job: "a", Key: "k", At: at})
		if !answer.Created || answer.WaitsFor != nil ||
			!answer.ScheduledAt.Equal(at.Truncate(time.Microsecond)) ||
			!answer.WaitSince.Equal(answer.ScheduledAt) || !answer.StartsLater(c.now()) {
			c.Errorf("triggered %+v, want a start at %s", answer, at)
		}
		delayed := c.asked(storage.TriggerRequest{Job: "a", Key: "d", Delay: 2 * time.Hour})
		equal(c, "time after a delay", delayed.ScheduledAt,
			delayed.CreatedAt.Add(2*time.Hour))
		equal(c, "adopted at once", len(c.adopt(s, 10, "a")), 0)
		c.Pass(90 * time.Minute)
		if adopted := c.adopt(s, 10, "a"); len(adopted) != 1 || adopted[0].ID != answer.ID {
			c.Fatalf("adopted %+v, want run %s", adopted, answer.ID)
		}
		c.granted(s, c.startOf(answer))
		c.record(delayed.ID, jobs.Waiting)
	}},
	{"a run for a later time blocks nothing before", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		c.asked(storage.TriggerRequest{Job: "a", Key: "later", Delay: time.Hour})
		equal(c, "created beside it", c.triggered("a", "now", new(time.Duration)).Created, true)
		scheduled := request("a", 1, ownName("a"))
		c.adopt(s, 10, "a")
		holder := request("a", 2, ownName("a"))
		_, err := c.Store.Cancel(c.ctx, action, c.triggered("a", "now", nil).ID)
		c.must(err)
		token := c.granted(s, holder)
		c.blocked(s, scheduled, reasons.Overlap, holder)
		c.finished(holder, token, jobs.Succeeded)
		c.finished(scheduled, c.granted(s, scheduled), jobs.Succeeded)
		c.advance(c.backfill(c.pastHours(1), 1))
		c.granted(s, c.waitingOf(s)[0])
	}},
	{"a run whose time has come goes before later triggers", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		first := c.asked(storage.TriggerRequest{Job: "a", Key: "1", Delay: time.Minute})
		c.Pass(2 * time.Minute)
		second := c.startOf(c.triggered("a", "2", nil))
		c.adopt(s, 10, "a")
		c.blocked(s, second, reasons.OlderWaiter, c.startOf(first))
		c.granted(s, c.startOf(first))
	}},
	{"a time that has passed is now", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		earlier := c.triggered("a", "1", nil)
		at := c.now().Add(-time.Hour)
		answer := c.asked(storage.TriggerRequest{Job: "a", Key: "2", At: at,
			Wait: new(time.Minute)})
		equal(c, "scheduled time", answer.ScheduledAt, at.Truncate(time.Microsecond))
		equal(c, "start by", *answer.StartBy, answer.CreatedAt.Add(time.Minute))
		c.waitsFor(answer.WaitsFor, reasons.OlderWaiter, ownName("a"), c.startOf(earlier), true)
		equal(c, "adopted", len(c.adopt(s, 10, "a")), 2)
	}},
	{"the longest wait counts from the later time", func(c *check) {
		c.register("h", "a")
		at := c.now().Add(time.Hour).Truncate(time.Microsecond)
		answer := c.asked(storage.TriggerRequest{Job: "a", At: at, Wait: new(time.Minute)})
		equal(c, "start by", *answer.StartBy, at.Add(time.Minute))
	}},
	{"a key belongs to the time of its trigger", func(c *check) {
		c.register("h", "a")
		at := c.now().Add(time.Hour)
		for key, r := range map[string]storage.TriggerRequest{
			"now": {}, "at": {At: at}, "delay": {Delay: time.Hour},
			"passed": {At: at.Add(-2 * time.Hour)}} {
			r.Job, r.Key = "a", key
			first := c.asked(r)
			again := c.asked(r)
			equal(c, key+": run", again.ID, first.ID)
			equal(c, key+": created", again.Created, false)
			for _, other := range []storage.TriggerRequest{{At: at.Add(time.Second)},
				{Delay: time.Second}, {At: at.Add(-time.Second)}} {
				other.Job, other.Key = "a", key
				_, err := c.Store.Trigger(c.ctx, action, other)
				c.refused(key+" for another time", err, storage.ErrKeyUsed)
			}
			if key != "now" {
				_, err := c.Store.Trigger(c.ctx, action, storage.TriggerRequest{Job: "a", Key: key})
				c.refused(key+" for no time", err, storage.ErrKeyUsed)
			}
		}
	}},
	{"the key of a recovered run belongs to the time of its trigger", func(c *check) {
		recovers := definition("a", "h")
		recovers.Recover = true
		_, err := c.Store.Register(c.ctx, c.session("registrar"), []storage.Definition{recovers})
		c.must(err)
		s, later := c.session("one"), storage.TriggerRequest{Job: "a", Key: "k",
			Delay: time.Minute}
		first := c.asked(later)
		c.Pass(2 * time.Minute)
		c.adopt(s, 1, "a")
		c.granted(s, c.startOf(first))
		c.Expire(s)
		c.sweep()
		again := c.asked(later)
		equal(c, "recovery", again.Recovery, 1)
		_, err = c.Store.Trigger(c.ctx, action, storage.TriggerRequest{Job: "a", Key: "k"})
		c.refused("the key for no time", err, storage.ErrKeyUsed)
	}},
	{"a run for a later time can be cancelled, and its lists show it", func(c *check) {
		c.register("h", "a")
		now := c.triggered("a", "now", nil)
		later := c.asked(storage.TriggerRequest{Job: "a", Key: "later", Delay: time.Hour,
			Params: json.RawMessage(`{"a":1}`)})
		c.lists("later", new(true), later)
		c.lists("not later", new(false), now)
		c.lists("all", nil, later, now)
		cancelled, err := c.Store.Cancel(c.ctx, action, later.ID)
		c.must(err)
		equal(c, "state", cancelled.State, jobs.Cancelled)
		c.lists("later after the cancel", new(true))
		c.Pass(2 * time.Hour)
		equal(c, "adopted", len(c.adopt(c.session("one"), 10, "a")), 1)
	}},
	{"an invalid time is refused", func(c *check) {
		c.register("h", "a")
		now := c.now()
		for what, r := range map[string]storage.TriggerRequest{
			"a negative delay":     {Delay: -time.Second},
			"a time and a delay":   {At: now, Delay: time.Second},
			"a year that is large": {At: now.AddDate(8000, 0, 0)},
			"a wait until a year that is large": {Wait: new(time.Hour),
				At: time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)},
			"a time without a wait": {At: now.Add(time.Hour), Wait: new(time.Duration)},
			"a delay without wait":  {Delay: time.Hour, Wait: new(time.Duration)},
		} {
			r.Job = "a"
			_, err := c.Store.Trigger(c.ctx, action, r)
			c.refused(what, err, storage.ErrBadInput)
		}
	}},
}

// asked triggers a job, which must be accepted.
func (c *check) asked(r storage.TriggerRequest) storage.Triggered {
	c.Helper()
	answer, err := c.Store.Trigger(c.ctx, action, r)
	c.must(err)
	return answer
}

// lists fails the test unless exactly these runs are in the list of waiting runs.
func (c *check) lists(what string, later *bool, want ...storage.Triggered) {
	c.Helper()
	found := c.runs(storage.RunFilter{States: []jobs.State{jobs.Waiting}, Later: later})
	if len(found) != len(want) {
		c.Fatalf("%s: got %+v, want %d runs", what, found, len(want))
	}
	for i := range want {
		equal(c, what, found[i].ID, want[i].ID)
	}
}
