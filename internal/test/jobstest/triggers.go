package jobstest

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var triggerRules = []rule{
	{"a trigger adds a waiting run that any replica can adopt", func(c *check) {
		c.register("h", "a")
		before := c.now()
		r, err := c.trigger("a", "k")
		c.must(err)
		if r.Job != "a" || r.Key != "k" || r.State != jobs.Waiting ||
			r.Reason != reasons.Triggered || r.Recovery != 0 {
			c.Errorf("triggered %+v", r)
		}
		within(c, "scheduled_at", r.ScheduledAt, before, c.now())
		within(c, "created at", r.CreatedAt, before, c.now())
		s := c.session("one")
		equal(c, "adopted", len(c.adopt(s, 10, "a")), 1)
		c.granted(s, storage.StartRequest{Run: r.ID,
			Firing: storage.Firing{Job: "a", ScheduledAt: r.ScheduledAt, Key: r.Key}, Attempt: 1,
			WaitSince: r.ScheduledAt})
	}},
	{"a trigger with a used key returns the run of the key", func(c *check) {
		c.register("h", "a")
		first, err := c.trigger("a", "k")
		c.must(err)
		again, err := c.trigger("a", "k")
		c.must(err)
		equal(c, "run", again.ID, first.ID)
		s := c.session("one")
		c.adopt(s, 1, "a")
		r := storage.StartRequest{Run: first.ID,
			Firing: storage.Firing{Job: "a", ScheduledAt: first.ScheduledAt, Key: "k"}, Attempt: 1}
		c.finished(r, c.granted(s, r), jobs.Succeeded)
		ended, err := c.trigger("a", "k")
		c.must(err)
		equal(c, "run", ended.ID, first.ID)
		equal(c, "state", ended.State, jobs.Succeeded)
		equal(c, "runs", len(c.runs(storage.RunFilter{})), 1)
	}},
	{"each job has its own keys", func(c *check) {
		c.register("h", "a", "b")
		a, err := c.trigger("a", "k")
		c.must(err)
		b, err := c.trigger("b", "k")
		c.must(err)
		equal(c, "jobs", a.Job+b.Job, "ab")
		equal(c, "one run", a.ID == b.ID, false)
	}},
	{"a trigger without a key gets a random key", func(c *check) {
		c.register("h", "a")
		first, err := c.trigger("a", "")
		c.must(err)
		second, err := c.trigger("a", "")
		c.must(err)
		if first.Key == "" || first.Key == second.Key || first.ID == second.ID {
			c.Errorf("triggered %+v and %+v", first, second)
		}
	}},
	{"a later trigger does not pass an earlier one of another replica", func(c *check) {
		first, second := c.triggers()
		one, two := c.session("one"), c.session("two")
		c.adopts(one, first)
		c.adopts(two, second)
		c.blocked(two, second, reasons.OlderWaiter, first)
		token := c.granted(one, first)
		c.blocked(two, second, reasons.Overlap, first)
		c.finished(first, token, jobs.Succeeded)
		c.granted(two, second)
	}},
	{"a later trigger does not pass an earlier one that waits for a worker", func(c *check) {
		first, second := c.triggers()
		s := c.session("one")
		c.adopts(s, first)
		c.adopts(s, second)
		withdrawn := noteOf(first, jobs.Waiting, reasons.NoWorker)
		withdrawn.Requests = nil
		equal(c, "withdrawal", c.note(s, withdrawn), true)
		c.blocked(s, second, reasons.OlderWaiter, first)
		c.granted(s, first)
	}},
	{"a later trigger does not pass an earlier one of a dead replica", func(c *check) {
		first, second := c.triggers()
		one, two := c.session("one"), c.session("two")
		c.adopts(one, first)
		c.adopts(two, second)
		c.Expire(one)
		c.blocked(two, second, reasons.OlderWaiter, first)
		c.sweep()
		c.blocked(two, second, reasons.OlderWaiter, first)
		c.adopts(two, first)
		c.granted(two, first)
	}},
	{"a cancelled trigger blocks no other trigger", func(c *check) {
		first, second := c.triggers()
		s := c.session("one")
		c.adopts(s, first)
		c.adopts(s, second)
		_, err := c.Store.Cancel(c.ctx, action, first.Run)
		c.must(err)
		c.granted(s, second)
	}},
	{"a trigger between attempts blocks no other trigger", func(c *check) {
		first, second := c.triggers()
		s := c.session("one")
		c.adopts(s, first)
		c.adopts(s, second)
		c.finished(first, c.granted(s, first), jobs.Waiting)
		c.granted(s, second)
	}},
	{"triggers of a job with overlapping runs do not block each other", func(c *check) {
		first, second := c.triggers()
		second.Requests = nil
		s := c.session("one")
		c.adopts(s, first)
		c.adopts(s, second)
		c.granted(s, second)
	}},
	{"a trigger of an unknown job is refused", func(c *check) {
		if _, err := c.trigger("unknown", "k"); !errors.Is(err, storage.ErrNotFound) {
			c.Errorf("trigger of an unknown job: %v, want ErrNotFound", err)
		}
		equal(c, "runs", len(c.runs(storage.RunFilter{})), 0)
	}},
}

var revokeRules = []rule{
	{"a revoke removes the claim and its grants", func(c *check) {
		one, two := c.session("one"), c.session("two")
		r := request("a", 1, table("s/t"))
		token := c.granted(one, r)
		c.must(c.Store.Revoke(c.ctx, token, jobs.Cancelled, reasons.Cancelled))
		record := c.record(r.Run, jobs.Cancelled)
		if record.Reason != reasons.Cancelled || record.FinishedAt == nil {
			c.Errorf("revoked run %+v", record)
		}
		heartbeat, err := c.Store.Heartbeat(c.ctx, one, storage.ReplicaStatus{})
		c.must(err)
		equal(c, "claims", len(heartbeat.Claims), 0)
		equal(c, "finish", c.finish(r, token, jobs.Succeeded), false)
		c.granted(two, request("b", 1, table("s/t")))
	}},
	{"a repeated revoke changes nothing", func(c *check) {
		r := request("a", 1)
		token := c.granted(c.session("one"), r)
		c.must(c.Store.Revoke(c.ctx, token, jobs.Lost, reasons.ClaimLost))
		c.must(c.Store.Revoke(c.ctx, token, jobs.Lost, reasons.ClaimLost))
		equal(c, "reason", c.record(r.Run, jobs.Lost).Reason, reasons.ClaimLost)
	}},
	{"a revoke keeps other claims", func(c *check) {
		s := c.session("one")
		a, b := request("a", 1), request("b", 1)
		tokenA, tokenB := c.granted(s, a), c.granted(s, b)
		c.must(c.Store.Revoke(c.ctx, tokenA, jobs.Lost, reasons.ClaimLost))
		heartbeat, err := c.Store.Heartbeat(c.ctx, s, storage.ReplicaStatus{})
		c.must(err)
		equal(c, "claims", len(heartbeat.Claims), 1)
		equal(c, "claim", heartbeat.Claims[tokenB], b.Run)
	}},
	{"a finished run cannot be revoked", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.finished(r, token, jobs.Succeeded)
		// The store may also return an error.
		_ = c.Store.Revoke(c.ctx, token, jobs.Lost, reasons.ClaimLost)
		c.record(r.Run, jobs.Succeeded)
	}},
	{"the cluster has an id", func(c *check) {
		equal(c, "no id", c.Store.ClusterID() == uuid.Nil, false)
		equal(c, "id by the second", c.Second().ClusterID(), c.Store.ClusterID())
	}},
}

// triggers triggers a job twice.
func (c *check) triggers() (first, second storage.StartRequest) {
	c.Helper()
	c.register("h", "a")
	asked := make([]storage.StartRequest, 2)
	for i := range asked {
		r, err := c.trigger("a", fmt.Sprint("key ", i))
		c.must(err)
		asked[i] = storage.StartRequest{
			Run: r.ID, Firing: storage.Firing{Job: "a", ScheduledAt: r.ScheduledAt, Key: r.Key},
			Attempt: 1, WaitSince: r.WaitSince,
			Requests: []locking.Request{ownName("a")},
		}
	}
	return asked[0], asked[1]
}

// adopts adopts the next waiting run of the job for the session, which must be that one.
func (c *check) adopts(session uuid.UUID, want storage.StartRequest) {
	c.Helper()
	records := c.adopt(session, 1, want.Firing.Job)
	if len(records) != 1 || records[0].ID != want.Run {
		c.Fatalf("adopted %+v, want run %s", records, want.Run)
	}
}
