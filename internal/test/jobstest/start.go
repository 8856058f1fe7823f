package jobstest

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var startRules = []rule{
	{"a granted start makes the run running", func(c *check) {
		s := c.session("one")
		r := request("a", 1, table("s/a"))
		r.Attempt = 2
		before := c.now()
		token := c.granted(s, r)
		record := c.record(r.Run, jobs.Running)
		equal(c, "job", record.Job, "a")
		equal(c, "scheduled_at", record.ScheduledAt, r.Firing.ScheduledAt)
		equal(c, "replica", record.Replica, "one")
		equal(c, "token", record.Token, token)
		equal(c, "attempt", record.Attempt, 2)
		within(c, "created at", record.CreatedAt, before, c.now())
		if record.StartedAt == nil || record.FinishedAt != nil || record.BlockedBy != nil ||
			record.Reason != "" {
			c.Errorf("running run %+v", record)
		}
	}},
	{"a run has no attempt before its start and keeps its waiting time", func(c *check) {
		c.register("h", "triggered", "late")
		c.recovering("a")
		one, two := c.session("one"), c.session("two")
		holder, waits, noted, skipped := request("a", 1, table("s/t")),
			request("a", 2, table("s/t")), request("a", 3), request("a", 4)
		before := c.now()
		token := c.granted(one, holder)
		c.blocked(one, waits, reasons.LockHeld, holder)
		equal(c, "note", c.note(one, noteOf(noted, jobs.Waiting, reasons.LockHeld)), true)
		equal(c, "note", c.note(one, noteOf(skipped, jobs.Skipped, reasons.LockHeld)), true)
		_, err := c.trigger("triggered", "k")
		c.must(err)
		after := c.now()
		late := misfired("late", after.Add(time.Minute), jobs.Waiting, reasons.Misfire)
		_, err = c.Store.CheckMisfires(c.ctx,
			[]storage.MisfireCheck{checkOf("late", after.Add(time.Hour))},
			func(string, storage.Cursor) []storage.Misfired {
				return []storage.Misfired{late}
			})
		c.must(err)
		since := map[uuid.UUID]time.Time{waits.Run: waits.WaitSince, noted.Run: noted.WaitSince}
		for _, r := range c.runs(storage.RunFilter{}) {
			equal(c, fmt.Sprint("attempt of ", r.Job, r.ScheduledAt), r.Attempt,
				map[bool]int{true: 1}[r.ID == holder.Run])
			want := since[r.ID]
			if r.State == jobs.Waiting && want.IsZero() {
				want = r.CreatedAt
			}
			equal(c, fmt.Sprint("waits since, ", r.Job, r.ScheduledAt), r.WaitSince, want)
			within(c, "created at", r.CreatedAt, before, c.now())
		}
		c.finished(holder, token, jobs.Waiting)
		again := c.record(holder.Run, jobs.Waiting)
		equal(c, "next attempt", again.Attempt, 2)
		within(c, "waits since", again.WaitSince, before, c.now())
		c.granted(one, waits)
		started := c.record(waits.Run, jobs.Running)
		equal(c, "attempt", started.Attempt, 1)
		equal(c, "waits since, running", started.WaitSince, time.Time{})
		c.Expire(one)
		c.sweep()
		for _, r := range c.adopt(two, 10, "a") {
			equal(c, "attempt of an adopted run", r.Attempt,
				map[bool]int{true: 2}[r.ID == holder.Run])
			c.same(r, c.record(r.ID, jobs.Waiting))
		}
	}},
	{"scheduled firings with a run have begun", func(c *check) {
		s := c.session("one")
		granted, blocked, noted, triggered := request("a", 1, table("s/t")),
			request("b", 1, table("s/t")), request("c", 1), request("d", 1)
		triggered.Firing.Key = "k"
		token := c.granted(s, granted)
		c.blocked(s, blocked, reasons.LockHeld, granted)
		equal(c, "note", c.note(s, noteOf(noted, jobs.Skipped, reasons.LockHeld)), true)
		c.start(s, triggered)
		recovery := granted.Firing
		recovery.Recovery = 1
		asked := []storage.Firing{firing("a", 2), granted.Firing, recovery, blocked.Firing,
			firing("other", 1), noted.Firing, firing("d", 1), granted.Firing}
		want := []bool{false, true, false, true, false, true, false, true}
		for _, state := range []string{"active", "ended"} {
			begun, err := c.Store.Begun(c.ctx, asked)
			c.must(err)
			equal(c, state, fmt.Sprint(begun), fmt.Sprint(want))
			if state == "active" {
				c.finished(granted, token, jobs.Succeeded)
			}
		}
		none, err := c.Store.Begun(c.ctx, nil)
		c.must(err)
		equal(c, "no firing", len(none), 0)
	}},
	{"runs with claims are known, and those of backfills", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		granted, blocked, ended, attempt := request("b", 1, table("s/t")),
			request("c", 1, table("s/t")), request("d", 1), request("e", 1)
		c.finished(ended, c.granted(s, ended), jobs.Succeeded)
		c.finished(attempt, c.granted(s, attempt), jobs.Waiting)
		c.granted(s, granted)
		c.blocked(s, blocked, reasons.LockHeld, granted)
		c.advance(c.backfill(c.pastHours(1), 1))
		back := c.waitingOf(s)[0]
		c.granted(s, back)
		asked := []uuid.UUID{ended.Run, granted.Run, uuid.New(), blocked.Run, back.Run, attempt.Run,
			granted.Run}
		claims, err := c.Store.Claims(c.ctx, asked)
		c.must(err)
		const none, plain, ofBackfill = "{false false false}", "{true false false}",
			"{true true false}"
		equal(c, "claims", fmt.Sprint(claims), fmt.Sprint([]string{none, plain, none, none,
			ofBackfill, none, plain}))
		claims, err = c.Store.Claims(c.ctx, nil)
		c.must(err)
		equal(c, "no run", len(claims), 0)
	}},
	{"runs with claims are known to be paused", func(c *check) {
		s := c.session("one")
		c.grouped("a")
		c.register("h", "b")
		first, second := request("a", 1), request("b", 1)
		c.granted(s, first)
		c.granted(s, second)
		for _, p := range []struct {
			target        storage.Target
			first, second bool
		}{
			{everything, true, true},
			{storage.Target{Kind: storage.TargetJob, Name: "b"}, false, true},
			{night, true, false},
		} {
			c.pause(p.target)
			claims, err := c.Store.Claims(c.ctx, []uuid.UUID{first.Run, second.Run})
			c.must(err)
			equal(c, "the first during "+p.target.String(), claims[0].Paused, p.first)
			equal(c, "the second during "+p.target.String(), claims[1].Paused, p.second)
			_, err = c.Store.Resume(c.ctx, action, p.target)
			c.must(err)
			claims, err = c.Store.Claims(c.ctx, []uuid.UUID{first.Run, second.Run})
			c.must(err)
			equal(c, "paused after "+p.target.String(), claims[0].Paused || claims[1].Paused, false)
		}
	}},
	{"tokens grow with each grant", func(c *check) {
		s := c.session("one")
		var last jobs.Token
		for n := range 5 {
			r := request("a", n, table("s/a"))
			token := c.granted(s, r)
			if token <= last {
				c.Fatalf("token %d after %d", token, last)
			}
			last = token
			c.finished(r, token, jobs.Succeeded)
		}
	}},
	{"tokens grow across sweeps and sessions", func(c *check) {
		one := c.session("one")
		first := c.granted(one, request("a", 1, table("s/a")))
		c.Expire(one)
		c.sweep()
		if second := c.granted(c.session("two"), request("a", 2, table("s/a"))); second <= first {
			c.Errorf("token %d after %d", second, first)
		}
	}},
	{"a repeated request gets the same token", func(c *check) {
		s := c.session("one")
		r := request("a", 1, table("s/a"), ownName("a"))
		token := c.granted(s, r)
		equal(c, "token of the resent request", c.granted(s, r), token)
		equal(c, "locks", len(c.locks()), 2)
	}},
	{"a blocked run can start again", func(c *check) {
		s := c.session("one")
		holder, waiter := request("a", 1, table("s/a")), request("b", 1, table("s/a"))
		token := c.granted(s, holder)
		c.blocked(s, waiter, reasons.LockHeld, holder)
		c.blocked(s, waiter, reasons.LockHeld, holder)
		record := c.record(waiter.Run, jobs.Waiting)
		if record.BlockedBy == nil || record.BlockedBy.Holder.Run != holder.Run.String() ||
			record.Reason != reasons.LockHeld || record.Waited != nil {
			c.Errorf("waiting run %+v", record)
		}
		since := record.WaitSince
		c.finished(holder, token, jobs.Succeeded)
		c.granted(s, waiter)
		if record := c.record(waiter.Run, jobs.Running); record.BlockedBy != nil ||
			record.Reason != "" || record.StartedAt == nil {
			c.Errorf("a run that was blocked and runs: %+v", record)
		} else if record.Waited == nil ||
			record.Waited.Holder.Run != holder.Run.String() ||
			!record.Waited.Since.Equal(since) {
			c.Errorf("blocker %+v, want %s since %s", record.Waited, holder.Run, since)
		}
	}},
	{"a skipped run has its wait", func(c *check) {
		s := c.session("one")
		holder, waiter := request("h", 1, table("s/a")), request("b", 1, table("s/a"))
		c.granted(s, holder)
		before := c.now()
		c.blocked(s, waiter, reasons.LockHeld, holder)
		recorded := c.now()
		blocker := &jobs.Blocker{Resource: table("s/a").Resource.String(),
			Holder: locking.Owner{Job: "h", Run: holder.Run.String()}}
		began := before.Add(-7 * time.Second)
		noteFor := func(r storage.StartRequest, since time.Time, b *jobs.Blocker) storage.Note {
			n := noteOf(r, jobs.Skipped, reasons.LockHeld)
			n.WaitSince, n.Blocker = since, b
			return n
		}
		short := noteFor(request("a", 1, table("s/a")), began, blocker)
		short.New = true
		alone := noteFor(request("c", 1), began, nil)
		c.note(s, noteFor(waiter, began, blocker))
		c.note(s, short)
		c.note(s, alone)
		for name, run := range map[string]uuid.UUID{"at once": short.Run, "later": waiter.Run} {
			w := c.record(run, jobs.Skipped).Waited
			if w == nil || w.Holder.Job != "h" || w.Resource != table("s/a").Resource.String() {
				c.Errorf("skipped %s: waited %+v, want for a run of h", name, w)
				continue
			}
			if name == "later" { // the time at which the wait was recorded, or before
				within(c, "since", w.Since, waiter.WaitSince, recorded)
			} else {
				equal(c, "since", w.Since.UnixMicro(), began.UnixMicro())
			}
		}
		if w := c.record(alone.Run, jobs.Skipped).Waited; w != nil {
			c.Errorf("without a blocker: waited %+v, want nothing", w)
		}
	}},
	{"another run of a firing is a duplicate, whatever its state", func(c *check) {
		one, two := c.session("one"), c.session("two")
		first, waits, ends := request("a", 1, table("s/a")), request("b", 1, table("s/a")),
			request("c", 1)
		token := c.granted(one, first)
		c.blocked(one, waits, reasons.LockHeld, first)
		c.finished(ends, c.granted(one, ends), jobs.Failed)
		for _, session := range []uuid.UUID{one, two} {
			for _, job := range []string{"a", "b", "c"} {
				again := request(job, 1, path("elsewhere"))
				c.outcome(session, again, storage.StartDuplicate)
				if _, err := c.Store.Run(c.ctx, again.Run); !errors.Is(err, storage.ErrNotFound) {
					c.Errorf("a duplicate of %s left a run: %v", job, err)
				}
			}
		}
		equal(c, "token of the first", c.granted(one, first), token)
	}},
	{"an ended run does not start again", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		c.finished(r, c.granted(s, r), jobs.Succeeded)
		c.outcome(s, r, storage.StartDuplicate)
		c.record(r.Run, jobs.Succeeded)
	}},
	{"a session cannot start a waiting run of another live session", func(c *check) {
		one, two := c.session("one"), c.session("two")
		holder, waiter := request("a", 1, table("s/a")), request("b", 1, table("s/a"))
		token := c.granted(one, holder)
		c.blocked(one, waiter, reasons.LockHeld, holder)
		c.outcome(two, holder, storage.StartDuplicate)
		c.finished(holder, token, jobs.Succeeded)
		c.outcome(two, waiter, storage.StartDuplicate)
		c.granted(one, waiter)
	}},
	{"scheduled time, key and recovery together identify a firing", func(c *check) {
		s := c.session("one")
		at := epoch.Add(time.Microsecond)
		for _, f := range []storage.Firing{
			{Job: "a", ScheduledAt: epoch}, {Job: "a", ScheduledAt: at},
			{Job: "a", ScheduledAt: epoch, Recovery: 1}, {Job: "b", ScheduledAt: epoch},
			{Job: "a", ScheduledAt: epoch, Key: "k"}, {Job: "a", ScheduledAt: epoch, Key: "k2"},
			{Job: "a", ScheduledAt: epoch, Key: "k", Recovery: 1},
		} {
			r := storage.StartRequest{Run: uuid.New(), Firing: f, Attempt: 1, WaitSince: epoch}
			c.granted(s, r)
			record := c.record(r.Run, jobs.Running)
			if got := (storage.Firing{Job: record.Job, ScheduledAt: record.ScheduledAt,
				Key: record.Key, Recovery: record.Recovery}); got != f {
				c.Errorf("firing %+v is kept as %+v", f, got)
			}
			r.Run = uuid.New()
			c.outcome(s, r, storage.StartDuplicate)
		}
	}},
	{"the same key at another scheduled time is a duplicate", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		r.Firing.Key = "k"
		c.granted(s, r)
		again := request("a", 2)
		again.Firing.Key = "k"
		c.outcome(s, again, storage.StartDuplicate)
	}},
	{"the first of two runs of one firing in a batch is granted", func(c *check) {
		s := c.session("one")
		results := c.start(s, request("a", 1), request("a", 1))
		equal(c, "first", results[0].Outcome, storage.StartGranted)
		equal(c, "second", results[1].Outcome, storage.StartDuplicate)
	}},
	{"the first of two firings on one table in a batch blocks the second", func(c *check) {
		s := c.session("one")
		first, second := request("b", 1, table("s/t")), request("a", 2, table("s/t"))
		results := c.start(s, first, second)
		equal(c, "first", results[0].Outcome, storage.StartGranted)
		equal(c, "second", results[1].Outcome, storage.StartBlocked)
		if b := results[1].Blocker; b == nil || b.Holder.Run != first.Run.String() {
			c.Errorf("the second is blocked by %+v, want the first", b)
		}
	}},
	{"a firing of a batch on a schema blocks a later one on its table", func(c *check) {
		s := c.session("one")
		results := c.start(s, request("a", 1, table("s")), request("b", 1, table("s/t")),
			request("c", 1, table("z/t")), request("d", 1, table("z")))
		for i, want := range []storage.StartOutcome{storage.StartGranted, storage.StartBlocked,
			storage.StartGranted, storage.StartBlocked} {
			equal(c, fmt.Sprint("outcome ", i), results[i].Outcome, want)
		}
	}},
	{"a blocked run holds none of its resources", func(c *check) {
		s := c.session("one")
		holder := request("a", 1, table("s/2"))
		c.granted(s, holder)
		blocker := c.blocked(s, request("b", 1, table("s/1"), table("s/2"), table("s/3")),
			reasons.LockHeld, holder)
		equal(c, "blocking resource", blocker.Resource, "s/2")
		equal(c, "holder's replica", blocker.Holder.Replica, "one")
		for _, lock := range c.locks() {
			equal(c, "holder of a lock", lock.Holder.Run, holder.Run.String())
		}
	}},
	{"a run can lock no resources", func(c *check) {
		s := c.session("one")
		c.granted(s, request("a", 1))
		c.granted(s, request("b", 1))
	}},
	{"an empty batch does nothing", func(c *check) {
		equal(c, "results", len(c.start(c.session("one"))), 0)
	}},
	{"1,000 starts and finishes fit in a batch", func(c *check) {
		s := c.session("one")
		requests := make([]storage.StartRequest, storage.MaxBatch)
		for i := range requests {
			name := fmt.Sprintf("job-%04d", i)
			requests[i] = request(name, 1, ownName(name), table("s/"+name), shared("read/all"))
		}
		tokens := map[jobs.Token]bool{}
		finishes := make([]storage.FinishRequest, len(requests))
		for i, result := range c.start(s, requests...) {
			if result.Outcome != storage.StartGranted || tokens[result.Token] {
				c.Fatalf("start %d: %+v, want a grant with a token of its own", i, result)
			}
			tokens[result.Token] = true
			finishes[i] = storage.FinishRequest{Run: requests[i].Run, Token: result.Token,
				State: jobs.Succeeded}
		}
		equal(c, "locks", len(c.locks()), 3*len(requests))
		for i, result := range c.start(s, requests...) {
			equal(c, "resent token", result.Token, finishes[i].Token)
		}
		done, err := c.Store.Finish(c.ctx, finishes)
		c.must(err)
		for i := range done {
			equal(c, "finished", done[i], true)
		}
		equal(c, "locks", len(c.locks()), 0)
	}},
}
