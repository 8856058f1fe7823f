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

// atOnce is a retention that is over by the next call.
const atOnce time.Duration = 0

var pruneRules = []rule{
	{"ended runs are deleted with their output after the retention", func(c *check) {
		s, ids := c.session("pruner"), c.pastRuns(3)
		equal(c, "runs that ended within the time",
			c.prune(s, storage.PruneRequest{Keep: time.Hour, Limit: 10}).Runs, 0)
		equal(c, "output", c.record(ids[2], jobs.Succeeded).Output, "output 2")
		pruned := c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10})
		equal(c, "runs", pruned.Runs, 2)
		equal(c, "runs left, the last of its job", len(c.runs(storage.RunFilter{})), 1)
		if _, err := c.Store.Run(c.ctx, ids[1]); !errors.Is(err, storage.ErrNotFound) {
			c.Errorf("a pruned run: %v", err)
		}
		again := request("a", 99)
		again.Run = ids[1]
		c.granted(s, again)
		equal(c, "output that was left for a run of the same id",
			c.record(again.Run, jobs.Running).Output, "")
		if pruned.Next != nil || pruned.Busy {
			c.Errorf("all was looked at: %+v", pruned)
		}
	}},
	{"runs of every final state are deleted", func(c *check) {
		s := c.session("one")
		for n, state := range jobs.States() {
			if r := request("a", n); state.Final() {
				c.note(s, noteOf(r, state, reasons.Misfire))
			}
		}
		last := request("a", 99)
		c.note(s, noteOf(last, jobs.Skipped, reasons.Misfire))
		ended := len(c.runs(storage.RunFilter{}))
		equal(c, "runs", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 100}).Runs, ended-1)
		c.record(last.Run, jobs.Skipped)
	}},
	{"the last ended run of a job is kept with its output", func(c *check) {
		s := c.session("one")
		ids := c.pastRuns(3)
		other := request("other", 1)
		c.finished(other, c.granted(s, other), jobs.Failed)
		goesOn, waits := request("a", 50), request("a", 51)
		c.granted(s, goesOn)
		c.note(s, noteOf(waits, jobs.Waiting, reasons.LockHeld))
		for _, want := range []int{2, 0} { // again when it is the only run
			equal(c, "runs", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 100}).Runs, want)
		}
		equal(c, "output", c.record(ids[2], jobs.Succeeded).Output, "output 2")
		c.record(other.Run, jobs.Failed)
	}},
	{"ended runs of triggers have a retention of their own", func(c *check) {
		s := c.session("pruner")
		c.registerAll(s, "h", "a", "b")
		c.pastRuns(3) // of the schedule of job a
		end := func(job, key string) uuid.UUID {
			triggered, err := c.trigger(job, key)
			c.must(err)
			_, err = c.Store.Cancel(c.ctx, operator, triggered.ID)
			c.must(err)
			return triggered.ID
		}
		first, last, other := end("a", "1"), end("a", "2"), end("b", "1")
		waiting, err := c.trigger("a", "3")
		c.must(err)
		request := storage.PruneRequest{Keep: time.Hour, Triggered: true, Limit: 10}
		equal(c, "runs within the time", c.prune(s, request).Runs, 0)
		request.Keep, request.Limit = atOnce, 1
		pruned := c.prune(s, request)
		equal(c, "runs", pruned.Runs, 1)
		equal(c, "a full batch has more", pruned.More, true)
		pruned = c.prune(s, request)
		equal(c, "runs left to prune", pruned.Runs, 0)
		equal(c, "more", pruned.More, false)
		if _, err := c.Store.Run(c.ctx, first); !errors.Is(err, storage.ErrNotFound) {
			c.Errorf("a pruned run of a trigger: %v", err)
		}
		c.record(last, jobs.Cancelled) // the last ended run of its job
		c.record(other, jobs.Cancelled)
		c.record(waiting.ID, jobs.Waiting)
		equal(c, "runs of the schedule",
			len(c.runs(storage.RunFilter{States: []jobs.State{jobs.Succeeded}})), 3)
		again, err := c.trigger("a", "1")
		c.must(err)
		if again.ID == first {
			c.Errorf("the key of a pruned run gives the run %s again, want a new one", first)
		}
	}},
	{"a run with an open delivery is kept", func(c *check) {
		c.outbox(c.Store)
		c.hooked("a", "h", jobs.Failed)
		s := c.session("one")
		delivered, last := request("a", 1), request("a", 2)
		c.finished(delivered, c.granted(s, delivered), jobs.Failed)
		c.finished(last, c.granted(s, last), jobs.Succeeded)
		d := c.delivered(delivered.Run, jobs.Failed)
		equal(c, "runs before the delivery",
			c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10}).Runs, 0)
		c.settled(d, storage.Settlement{Error: "gone", GiveUp: true})
		equal(c, "runs once it was given up",
			c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10}).Runs, 0)
		equal(c, "job", c.undelivered(storage.UndeliveredFilter{})[0].Job, "a")
		_, err := c.outbox(c.Store).DeliverAgain(c.ctx, operator, d.ID)
		c.must(err)
		again := c.take("w", time.Hour)
		if len(again) != 1 || again[0].Run.ID != delivered.Run || again[0].Run.Job != "a" {
			c.Fatalf("deliveries %+v", again)
		}
		c.settled(again[0], storage.Settlement{Delivered: true})
		equal(c, "runs after the delivery",
			c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10}).Runs, 1)
	}},
	{"a run that has not ended is kept and continues", func(c *check) {
		s := c.session("one")
		runs, waits := request("holder", 1, table("s/t")), request("waiter", 1, table("s/t"))
		token := c.granted(s, runs)
		c.blocked(s, waits, reasons.LockHeld, runs)
		c.register("h", "triggered")
		triggered, err := c.trigger("triggered", "key")
		c.must(err)
		equal(c, "runs", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 100}).Runs, 0)
		c.record(runs.Run, jobs.Running)
		c.record(waits.Run, jobs.Waiting)
		c.record(triggered.ID, jobs.Waiting)
		c.finished(runs, token, jobs.Succeeded)
		c.granted(s, waits)
	}},
	{"the retention counts from the end of the run", func(c *check) {
		s := c.session("one")
		// If a prune takes longer than the run took, it shows nothing. Then a longer run follows.
		for n, length := 1, 20*time.Millisecond; ; n, length = n+2, 4*length {
			r := request("a", n)
			token := c.granted(s, r)
			created := c.record(r.Run, jobs.Running).CreatedAt
			time.Sleep(length)
			c.finished(r, token, jobs.Succeeded)
			ended := *c.record(r.Run, jobs.Succeeded).FinishedAt
			later := request("a", n+1) // otherwise the first is kept as the last of its job
			c.finished(later, c.granted(s, later), jobs.Succeeded)
			// The run was created before that and ended after it.
			keep := c.now().Sub(created) - length/2
			c.prune(s, storage.PruneRequest{Keep: keep, Limit: 100})
			if c.now().Add(-keep).Before(ended) {
				c.record(r.Run, jobs.Succeeded) // it is still there
				return
			}
		}
	}},
	{"a run after the misfire cursor is kept unless it was triggered",
		func(c *check) {
			s := c.session("one")
			c.register("h", "a")
			cursor := c.versions()["a"].CheckedUntil
			decided, undecided := request("a", 1), request("a", 2)
			decided.Firing.ScheduledAt, undecided.Firing.ScheduledAt = cursor,
				cursor.Add(time.Millisecond)
			byHand := undecided
			byHand.Run, byHand.Firing.Key = uuid.New(), "key"
			last := byHand
			last.Run, last.Firing.Key = uuid.New(), "last"
			for _, r := range []storage.StartRequest{decided, undecided, byHand, last} {
				c.finished(r, c.granted(s, r), jobs.Succeeded)
			}
			equal(c, "runs", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 100}).Runs, 2)
			left := c.runs(storage.RunFilter{})
			if len(left) != 2 || left[0].ID != last.Run || left[1].ID != undecided.Run {
				c.Errorf("left: %+v", left)
			}
		}},
	{"a run is kept until dependents with live sessions have handled its scheduled time", func(c *check) {
		s := c.session("one")
		c.register("h", "load")
		dependent := definition("report", "h")
		dependent.After = []string{"load", "other"}
		dependents := c.session("carries")
		_, err := c.Store.Register(c.ctx, dependents, []storage.Definition{dependent})
		c.must(err)
		c.pause(storage.Target{Kind: storage.TargetJob, Name: "report"})
		cursor := c.versions()["report"].CheckedUntil
		handled, waitedFor, byHand, last := request("load", 1), request("load", 2),
			request("load", 3), request("load", 4)
		handled.Firing.ScheduledAt, waitedFor.Firing.ScheduledAt = cursor,
			cursor.Add(time.Millisecond)
		byHand.Firing.ScheduledAt, byHand.Firing.Key = waitedFor.Firing.ScheduledAt, "key"
		last.Firing.ScheduledAt, last.Firing.Key = waitedFor.Firing.ScheduledAt, "last"
		for _, r := range []storage.StartRequest{handled, waitedFor, byHand, last} {
			c.finished(r, c.granted(s, r), jobs.Succeeded)
		}
		_, err = c.Store.CheckMisfires(c.ctx,
			[]storage.MisfireCheck{checkOf("load", waitedFor.Firing.ScheduledAt)},
			func(string, storage.Cursor) []storage.Misfired { return nil })
		c.must(err)
		equal(c, "runs", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 100}).Runs, 2)
		c.record(waitedFor.Run, jobs.Succeeded)
		c.must(c.Store.End(c.ctx, dependents))
		equal(c, "runs when no session has the job",
			c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 100}).Runs, 1)
	}},
	{"batches delete all old runs and pass those that are kept", func(c *check) {
		s := c.session("one")
		var stay []uuid.UUID
		for n := range 9 {
			r := request("a", n)
			if token := c.granted(s, r); n%3 == 0 {
				stay = append(stay, r.Run)
			} else {
				c.finished(r, token, jobs.Failed)
			}
		}
		last := request("a", 9)
		c.finished(last, c.granted(s, last), jobs.Failed)
		total, batches, request := 0, 0, storage.PruneRequest{Keep: atOnce, Limit: 2}
		for {
			pruned := c.prune(s, request)
			if total, batches = total+pruned.Runs, batches+1; pruned.Runs > request.Limit ||
				batches > 10 {
				c.Fatalf("batch %d: %+v", batches, pruned)
			}
			if request.After = pruned.Next; pruned.Next == nil {
				break
			}
		}
		equal(c, "runs", total, 9-len(stay))
		equal(c, "batches", batches, 6)
		for _, id := range stay {
			c.record(id, jobs.Running)
		}
		c.record(last.Run, jobs.Failed)
	}},
	{"only one replica prunes at a time", func(c *check) {
		one, two := c.session("one"), c.session("two")
		c.pastRuns(2)
		if pruned := c.prune(one, storage.PruneRequest{Keep: time.Hour, Limit: 1}); pruned.Busy {
			c.Errorf("the first: %+v", pruned)
		}
		for _, store := range []storage.Store{c.Store, c.Second()} {
			pruned, err := store.Prune(c.ctx, two, storage.PruneRequest{Keep: atOnce, Limit: 1})
			c.must(err)
			if !pruned.Busy || pruned.Runs != 0 || pruned.Next != nil {
				c.Errorf("the second: %+v", pruned)
			}
		}
		equal(c, "runs by the first",
			c.prune(one, storage.PruneRequest{Keep: atOnce, Limit: 1}).Runs,
			1)
	}},
	{"a recovery continues after its lost run is deleted", func(c *check) {
		one, two := c.session("one"), c.session("two")
		c.recovering("a")
		r := request("a", 1, table("s/t"))
		c.granted(one, r)
		c.Expire(one)
		c.sweep()
		last := request("a", 2)
		c.finished(last, c.granted(two, last), jobs.Succeeded)
		equal(c, "runs", c.prune(two, storage.PruneRequest{Keep: atOnce, Limit: 10}).Runs, 1)
		adopted := c.adopt(two, 1, "a")
		if len(adopted) != 1 || adopted[0].Recovery != 1 {
			c.Fatalf("adopted %+v", adopted)
		}
		again := storage.StartRequest{
			Run: adopted[0].ID, Firing: storage.Firing{Job: "a", ScheduledAt: r.Firing.ScheduledAt,
				Recovery: 1}, Attempt: 1,
			Requests: []locking.Request{table("s/t")}, WaitSince: r.WaitSince,
		}
		c.finished(again, c.granted(two, again), jobs.Succeeded)
	}},
	{"old definitions without sessions are deleted unless they are in use",
		func(c *check) {
			old, pruner := c.session("old"), c.session("pruner")
			equal(c, "first", c.registerAll(old, "h1", "a")["a"], int64(1))
			equal(c, "second", c.registerAll(c.session("new"), "h2", "a")["a"], int64(2))
			atOnce := storage.PruneRequest{Keep: atOnce, Limit: 1}
			for range 2 {
				equal(c, "definitions while sessions have all", c.prune(pruner, atOnce).Definitions,
					0)
			}
			c.must(c.Store.End(c.ctx, old))
			equal(c, "definitions when it is first seen", c.prune(pruner, atOnce).Definitions, 0)
			equal(c, "definitions within the time",
				c.prune(pruner, storage.PruneRequest{Keep: time.Hour, Limit: 1}).Definitions, 0)
			equal(c, "definitions", c.prune(pruner, atOnce).Definitions, 1)
			equal(c, "the first, which is new again",
				c.registerAll(c.session("back"), "h1", "a")["a"],
				int64(3))
			equal(c, "the second, which is the old one",
				c.registerAll(c.session("new"), "h2", "a")["a"],
				int64(2))
		}},
	{"the active definition is kept without sessions", func(c *check) {
		one, two, pruner := c.session("one"), c.session("two"), c.session("pruner")
		c.registerAll(one, "h1", "a")
		c.registerAll(two, "h2", "a")
		c.must(c.Store.End(c.ctx, two))
		c.must(c.Store.End(c.ctx, one))
		c.activeDefinitions("a", 1)
		for range 3 {
			equal(c, "definitions, one active and one the newest",
				c.prune(pruner, storage.PruneRequest{Keep: atOnce, Limit: 1}).Definitions, 0)
		}
		views, err := c.Store.Jobs(c.ctx)
		c.must(err)
		if len(views) != 1 || views[0].Hash != "h1" {
			c.Errorf("jobs %+v", views)
		}
	}},
	{"a definition that a session has again and the newest one are kept", func(c *check) {
		pruner := c.session("pruner")
		c.registerAll(c.session("lives"), "h1", "a")
		ended := c.session("ended")
		c.registerAll(ended, "h2", "a")
		c.must(c.Store.End(c.ctx, ended))
		atOnce := storage.PruneRequest{Keep: atOnce, Limit: 1}
		for range 3 {
			equal(c, "definitions, one active and one the newest",
				c.prune(pruner, atOnce).Definitions, 0)
		}
		c.registerAll(c.session("third"), "h3", "a") // the second is no longer the newest
		c.registerAll(c.session("again"), "h2", "a") // but a session has it
		for range 2 {
			equal(c, "definitions, sessions have all", c.prune(pruner, atOnce).Definitions, 0)
		}
	}},
}

// prune prunes for the session.
func (c *check) prune(session uuid.UUID, r storage.PruneRequest) storage.Pruned {
	c.Helper()
	pruned, err := c.Store.Prune(c.ctx, session, r)
	c.must(err)
	return pruned
}
