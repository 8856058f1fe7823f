package jobstest

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// triggerWaitRules are about the longest waits of triggered runs, and the answers to triggers.
var triggerWaitRules = []rule{
	{"a trigger reports that it added a run and that nothing blocks it", func(c *check) {
		c.register("h", "a")
		answer := c.triggered("a", "k", nil)
		if !answer.Created || answer.WaitsFor != nil || answer.StartBy != nil {
			c.Errorf("a trigger of a free job was answered %+v", answer)
		}
		again := c.triggered("a", "k", nil)
		if again.Created || again.WaitsFor != nil || again.ID != answer.ID {
			c.Errorf("the same key again was answered %+v", again)
		}
		if record := c.record(answer.ID, jobs.Waiting); record.StartBy != nil {
			c.Errorf("a run without a limit: %+v", record)
		}
	}},
	{"a trigger returns the lock that its run waits for", func(c *check) {
		c.defined("h", map[string][]locking.Request{"a": {table("s")}})
		s, holder := c.session("one"), request("holder", 1, table("s/t"))
		c.granted(s, holder)
		for _, created := range []bool{true, false} {
			answer := c.triggered("a", "k", nil)
			equal(c, "created", answer.Created, created)
			c.waitsFor(answer.WaitsFor, reasons.LockHeld, table("s/t"), holder, false)
		}
	}},
	{"a trigger returns the earlier trigger that blocks its run, and the root",
		func(c *check) {
			c.defined("h", map[string][]locking.Request{"a": {table("s/t")}})
			one, holder := c.session("one"), request("holder", 1, table("s/t"))
			first := c.startOf(c.triggered("a", "1", nil), table("s/t"))
			c.adopts(one, first)
			c.granted(one, holder)
			c.blocked(one, first, reasons.LockHeld, holder)
			c.triggered("a", "2", nil)
			third := c.triggered("a", "3", nil)
			c.waitsFor(third.WaitsFor, reasons.LockHeld, table("s/t"), holder, false)
			c.defined("later", map[string][]locking.Request{"a": nil})
			fourth := c.triggered("a", "4", nil)
			c.waitsFor(fourth.WaitsFor, reasons.OlderWaiter, ownName("a"), first, true)
			if root := fourth.WaitsFor.Root; root.Holder.Run != holder.Run.String() ||
				root.Resource != table("s/t").Resource.String() {
				c.Errorf("the root of %+v, want run %s", fourth.WaitsFor, holder.Run)
			}
		}},
	{"a trigger without waiting is refused while its job runs", func(c *check) {
		c.register("h", "a")
		s, running := c.session("one"), request("a", 1)
		running.Requests = []locking.Request{ownName("a")}
		token := c.granted(s, running)
		c.busy("a", "k", reasons.Overlap, ownName("a"), running)
		equal(c, "runs", len(c.runs(storage.RunFilter{})), 1)
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{Action: "trigger"})), 0)
		c.finished(running, token, jobs.Succeeded)
		before := c.now()
		answer := c.triggered("a", "k", new(time.Duration))
		if !answer.Created || answer.StartBy == nil ||
			!answer.StartBy.Equal(answer.CreatedAt.Add(storage.TriggerGrace)) {
			c.Errorf("the key of a refused trigger was answered %+v", answer)
		}
		within(c, "start by", *answer.StartBy, before.Add(storage.TriggerGrace),
			c.now().Add(storage.TriggerGrace))
	}},
	{"a trigger without waiting is refused while its lock is held", func(c *check) {
		c.defined("h", map[string][]locking.Request{"a": {table("s")}})
		s, holder := c.session("one"), request("holder", 1, table("s/t"))
		token := c.granted(s, holder)
		c.busy("a", "k", reasons.LockHeld, table("s/t"), holder)
		c.finished(holder, token, jobs.Succeeded)
		equal(c, "created", c.triggered("a", "k", new(time.Duration)).Created, true)
	}},
	{"a trigger without waiting is refused behind an earlier trigger", func(c *check) {
		c.register("h", "a")
		first := c.startOf(c.triggered("a", "1", nil))
		c.busy("a", "2", reasons.OlderWaiter, ownName("a"), first)
	}},
	{"a trigger without waiting is accepted if runs of its job may overlap",
		func(c *check) {
			overlapping := definition("a", "h")
			overlapping.MayOverlap = true
			_, err := c.Store.Register(c.ctx, c.session("registrar"),
				[]storage.Definition{overlapping})
			c.must(err)
			c.triggered("a", "1", nil)
			equal(c, "created", c.triggered("a", "2", new(time.Duration)).Created, true)
		}},
	{"a trigger without waiting returns the waiting run of its key", func(c *check) {
		c.register("h", "a")
		first := c.startOf(c.triggered("a", "1", nil))
		second := c.triggered("a", "2", nil)
		again := c.triggered("a", "2", new(time.Duration))
		if again.ID != second.ID || again.Created {
			c.Errorf("got %+v, want run %s", again, second.ID)
		}
		c.waitsFor(again.WaitsFor, reasons.OlderWaiter, ownName("a"), first, true)
	}},
	{"one of several concurrent triggers without waiting is accepted", func(c *check) {
		c.register("h", "a")
		errs := make([]error, 8)
		done := make(chan int)
		for i := range errs {
			store := []storage.Store{c.Store, c.Second()}[i%2]
			go func() {
				_, errs[i] = store.Trigger(c.ctx, action,
					storage.TriggerRequest{Job: "a", Wait: new(time.Duration)})
				done <- i
			}()
		}
		accepted := 0
		for range errs {
			if err := errs[<-done]; err == nil {
				accepted++
			} else if !errors.Is(err, storage.ErrBusy) {
				c.Errorf("concurrent trigger: got error %v, want ErrBusy", err)
			}
		}
		equal(c, "accepted", accepted, 1)
		equal(c, "runs", len(c.runs(storage.RunFilter{})), 1)
	}},
	{"the limit of a wait is stored with the run", func(c *check) {
		c.register("h", "a")
		answer := c.triggered("a", "k", new(time.Minute))
		want := answer.CreatedAt.Add(time.Minute)
		s := c.session("one")
		adopted := c.adopt(s, 1, "a")
		for what, r := range map[string]storage.Record{"answered": answer.Record,
			"read": c.record(answer.ID, jobs.Waiting), "adopted": adopted[0]} {
			if r.StartBy == nil || !r.StartBy.Equal(want) {
				c.Errorf("%s with the limit %v, want %s", what, r.StartBy, want)
			}
		}
	}},
	{"an invalid wait is refused", func(c *check) {
		c.register("h", "a")
		for _, wait := range []time.Duration{-1, 1, time.Second - 1} {
			_, err := c.Store.Trigger(c.ctx, action, storage.TriggerRequest{Job: "a", Wait: &wait})
			c.refused("a wait of "+wait.String(), err, storage.ErrBadInput)
		}
	}},
	{"a skipped triggered run leaves its key free", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		var before uuid.UUID
		for range 3 { // the key is free each time
			answer := c.triggered("a", "k", new(time.Minute))
			if !answer.Created || answer.ID == before {
				c.Fatalf("the key of a skipped run was answered %+v", answer)
			}
			before = answer.ID
			r := c.startOf(answer)
			c.adopts(s, r)
			equal(c, "skip", c.note(s, noteOf(r, jobs.Skipped, reasons.LockHeld)), true)
		}
		last := c.triggered("a", "k", nil)
		r := c.startOf(last)
		c.adopts(s, r)
		c.finished(r, c.granted(s, r), jobs.Succeeded)
		equal(c, "run of the key", c.triggered("a", "k", nil).ID, last.ID)
		equal(c, "runs", len(c.runs(storage.RunFilter{})), 4)
	}},
	{"a cancelled triggered run keeps its key", func(c *check) {
		c.register("h", "a")
		answer := c.triggered("a", "k", nil)
		_, err := c.Store.Cancel(c.ctx, action, answer.ID)
		c.must(err)
		equal(c, "run", c.triggered("a", "k", nil).ID, answer.ID)
	}},
}

// triggered triggers the job with a key and a wait, which must be accepted.
func (c *check) triggered(job, key string, wait *time.Duration) storage.Triggered {
	c.Helper()
	answer, err := c.Store.Trigger(c.ctx, action,
		storage.TriggerRequest{Job: job, Key: key, Wait: wait})
	c.must(err)
	return answer
}

// startOf starts a triggered run, with its own name and other requests.
func (c *check) startOf(t storage.Triggered, requests ...locking.Request) storage.StartRequest {
	return storage.StartRequest{
		Run: t.ID, Firing: storage.Firing{Job: t.Job, ScheduledAt: t.ScheduledAt, Key: t.Key},
		Attempt: 1, WaitSince: t.WaitSince,
		Requests: append([]locking.Request{ownName(t.Job)}, requests...),
	}
}

// busy checks that a trigger that must not wait is refused because of the holder.
func (c *check) busy(job, key string, reason jobs.Reason, held locking.Request,
	holder storage.StartRequest) {
	c.Helper()
	_, err := c.Store.Trigger(c.ctx, action,
		storage.TriggerRequest{Job: job, Key: key, Wait: new(time.Duration)})
	var busy *storage.BusyError
	if !errors.As(err, &busy) || !errors.Is(err, storage.ErrBusy) || busy.Job != job {
		c.Fatalf("got error %v, want a *BusyError of job %s", err, job)
	}
	c.waitsFor(&busy.Blocker, reason, held, holder, reason == reasons.OlderWaiter)
}

func (c *check) waitsFor(o *storage.RunBlocker, reason jobs.Reason, held locking.Request,
	holder storage.StartRequest, waiting bool) {
	c.Helper()
	if o == nil || o.Reason != reason || o.Resource != held.Resource.String() ||
		o.Holder.Run != holder.Run.String() ||
		o.Holder.Job != holder.Firing.Job || o.Waiting != waiting {
		c.Fatalf("waits for %+v, want %s because of run %s of job %s on %s", o, reason,
			holder.Run, holder.Firing.Job, held.Resource)
	}
}
