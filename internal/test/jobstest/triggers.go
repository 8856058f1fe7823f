package jobstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

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
	{"each of many concurrent triggers has a result of its own", triggerConcurrently},
	{"a trigger of an unknown job is refused", func(c *check) {
		if _, err := c.trigger("unknown", "k"); !errors.Is(err, storage.ErrNotFound) {
			c.Errorf("trigger of an unknown job: %v, want ErrNotFound", err)
		}
		equal(c, "runs", len(c.runs(storage.RunFilter{})), 0)
	}},
}

// triggerConcurrently triggers in many ways at the same time, so that a store may share its
// transactions among them.
func triggerConcurrently(c *check) {
	c.defined("h", map[string][]locking.Request{"a": nil, "b": {table("s")}, "paused": nil})
	_, err := c.Store.Pause(c.ctx, action, storage.Target{Kind: storage.TargetJob, Name: "paused"})
	c.must(err)
	holder := request("holder", 1, table("s"))
	c.granted(c.session("one"), holder)
	at := c.now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	const each = 8
	kinds := map[string]storage.TriggerRequest{
		"a":       {Job: "a"},
		"same":    {Job: "a", Key: "same"},
		"params":  {Job: "a", Params: json.RawMessage(`{"x":1}`)},
		"at":      {Job: "a", At: at},
		"delay":   {Job: "a", Delay: time.Hour},
		"limit":   {Job: "a", Wait: new(time.Minute)},
		"held":    {Job: "b"},
		"paused":  {Job: "paused"},
		"even":    {Job: "paused", EvenPaused: true},
		"unknown": {Job: "unknown"},
	}
	type result struct {
		storage.Triggered
		err error
	}
	results := map[string][]result{}
	var all sync.WaitGroup
	for kind, r := range kinds {
		got := make([]result, each)
		results[kind] = got
		for i := range each {
			store := []storage.Store{c.Store, c.Second()}[i%2]
			all.Go(func() {
				got[i].Triggered, got[i].err = store.Trigger(c.ctx, storage.Action{Actor: "ann",
					Via: "api", Reason: kind}, r)
			})
		}
	}
	all.Wait()
	ids := map[uuid.UUID]bool{}
	created := map[string]int{}
	for kind, got := range results {
		for _, r := range got {
			switch kind {
			case "paused":
				c.refused(kind, r.err, storage.ErrPaused)
				continue
			case "unknown":
				c.refused(kind, r.err, storage.ErrNotFound)
				continue
			}
			c.must(r.err)
			ids[r.ID] = true
			if r.Created {
				created[kind]++
			}
			c.triggeredAs(kind, kinds[kind], r.Triggered)
		}
	}
	for kind := range kinds {
		want := map[string]int{"same": 1, "paused": 0, "unknown": 0}
		n, special := want[kind]
		if !special {
			n = each
		}
		equal(c, "runs created for "+kind, created[kind], n)
		equal(c, "audit entries for "+kind, c.auditedFor(kind, ids), n)
	}
	equal(c, "runs", len(c.runs(storage.RunFilter{Job: "a"})), 5*each+1)
	for _, r := range results["held"] {
		if b := r.WaitsFor; b == nil || b.Reason != reasons.LockHeld || b.Holder.Job != "holder" {
			c.Errorf("a held run waits for %+v", b)
		}
	}
}

// triggeredAs checks that the answer to a trigger, and the stored run, are as requested.
func (c *check) triggeredAs(kind string, r storage.TriggerRequest, got storage.Triggered) {
	c.Helper()
	run := got.Record
	stored, err := c.Second().Run(c.ctx, run.ID)
	c.must(err)
	c.same(stored, run)
	scheduledAt, since := r.Begin(run.CreatedAt)
	limited := r.StartBy(since)
	if run.Job != r.Job || run.State != jobs.Waiting || run.Reason != reasons.Triggered ||
		run.Detail != "triggered by ann: "+kind || run.KeyActor != "ann" || run.Key == "" ||
		!run.ScheduledAt.Equal(scheduledAt) || !run.WaitSince.Equal(since) ||
		!storage.SameParams(run.Params, r.Params) || (run.StartBy == nil) != (limited == nil) ||
		limited != nil && !run.StartBy.Equal(*limited) {
		c.Errorf("%s: triggered %+v", kind, run)
	}
	if r.Later() && got.WaitsFor != nil {
		c.Errorf("%s: a run for a later time waits for %+v", kind, got.WaitsFor)
	}
}

// auditedFor returns the number of entries with the reason. Each must be about one of the runs.
func (c *check) auditedFor(reason string, runs map[uuid.UUID]bool) int {
	c.Helper()
	n := 0
	for _, l := range c.audit(storage.AuditFilter{Action: "trigger", Limit: storage.MaxBatch}) {
		if l.Reason != reason {
			continue
		}
		n++
		var detail struct {
			Run         uuid.UUID  `json:"run"`
			Key         string     `json:"key"`
			ScheduledAt *time.Time `json:"scheduled_at"`
		}
		c.must(json.Unmarshal(l.Detail, &detail))
		run, err := c.Store.Run(c.ctx, detail.Run)
		c.must(err)
		later := reason == "at" || reason == "delay"
		if !runs[run.ID] || run.Key != detail.Key || l.Actor != "ann" || l.Via != "api" ||
			l.Target != "job "+run.Job || (detail.ScheduledAt != nil) != later ||
			later && !detail.ScheduledAt.Equal(run.ScheduledAt) {
			c.Errorf("the entry %+v with detail %s is about run %+v", l, l.Detail, run)
		}
	}
	return n
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
