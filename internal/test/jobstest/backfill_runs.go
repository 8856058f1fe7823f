package jobstest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// backfillRunRules are about the runs of backfills.
var backfillRunRules = []rule{
	{"runs are selected by their backfill", func(c *check) {
		c.overlapping()
		s, times := c.session("one"), c.pastHours(3)
		other := c.backfill(times, 1)
		c.advance(other)
		_, err := c.Store.CancelBackfill(c.ctx, action, other.id)
		c.must(err)
		scheduled := request("a", 1)
		c.finished(scheduled, c.granted(s, scheduled), jobs.Succeeded)
		b := c.backfill(times, 3)
		c.advance(b)
		starts := c.waitingOf(s)
		c.finished(starts[0], c.granted(s, starts[0]), jobs.Failed)
		c.granted(s, starts[1])
		selected := func(f storage.RunFilter, want ...uuid.UUID) {
			c.Helper()
			f.Backfill = b.id
			c.sameRuns(f, want...)
		}
		failed, running, waiting := starts[0].Run, starts[1].Run, starts[2].Run
		selected(storage.RunFilter{}, failed, running, waiting)
		selected(storage.RunFilter{Job: "a"}, failed, running, waiting)
		selected(storage.RunFilter{Job: "b"})
		selected(storage.RunFilter{States: []jobs.State{jobs.Failed}}, failed)
		selected(storage.RunFilter{States: []jobs.State{jobs.Running, jobs.Waiting}}, running,
			waiting)
		selected(storage.RunFilter{Reason: reasons.Backfill}, waiting)
		all := c.runs(storage.RunFilter{Backfill: b.id})
		selected(storage.RunFilter{Before: cursorOf(all[0])}, all[1].ID, all[2].ID)
		selected(storage.RunFilter{After: cursorOf(all[2]), Limit: 1}, all[1].ID)
	}},
	{"a run of a backfill waits behind younger waiters, and none waits behind it", func(c *check) {
		c.register("h", "a", "b", "holder")
		s, one := c.session("one"), c.session("two")
		holder := request("holder", 1, table("s/t"))
		token := c.granted(one, holder)
		b := c.backfill(c.pastHours(1), 1)
		c.advance(b)
		run := c.waitingOf(s, table("s/t"))[0]
		c.blocked(s, run, reasons.LockHeld, holder)
		younger := request("b", 1, table("s/t"))
		younger.WaitSince = c.now().Add(time.Minute)
		c.blocked(one, younger, reasons.LockHeld, holder)
		own := request("a", 1, ownName("a"))
		own.WaitSince = c.now().Add(time.Minute)
		ownToken := c.granted(one, own)
		c.finished(holder, token, jobs.Succeeded)
		c.blocked(s, run, reasons.Overlap, own)
		c.finished(own, ownToken, jobs.Succeeded)
		c.blocked(s, run, reasons.OlderWaiter, younger)
		youngerToken := c.granted(one, younger)
		c.note(s, noteOf(run, jobs.Waiting, reasons.NoWorker))
		next := request("b", 2, table("s/t"))
		next.WaitSince = c.now().Add(2 * time.Minute)
		c.finished(younger, youngerToken, jobs.Succeeded)
		c.finished(next, c.granted(one, next), jobs.Succeeded)
		c.granted(s, run)
	}},
	{"a start says whether a run of a backfill blocks it", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		b := c.backfill(c.pastHours(1), 1)
		c.advance(b)
		run := c.waitingOf(s)[0]
		token := c.granted(s, run)
		scheduled := request("a", 1, ownName("a"))
		for range 2 {
			result := c.start(s, scheduled)[0]
			if result.Outcome != storage.StartBlocked || !result.Backfill || result.Queued ||
				result.Reason != reasons.Overlap {
				c.Errorf("start %+v, want blocked by a backfill", result)
			}
		}
		c.finished(run, token, jobs.Succeeded)
		c.granted(s, scheduled)
		if result := c.start(s, request("a", 2, ownName("a")))[0]; result.Backfill {
			c.Errorf("start %+v, want blocked by a scheduled run", result)
		}
	}},
	{"runs of backfills are adopted as late runs, after other late runs", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		b := c.backfill(c.pastHours(1), 1)
		c.advance(b)
		late := request("a", 1)
		late.WaitSince = c.now()
		gone := c.session("gone")
		c.note(gone, noteOf(late, jobs.Waiting, reasons.LockHeld))
		c.must(c.Store.End(c.ctx, gone))
		ask := Adoption(nil, 10, "a")
		ask.Jobs[0].Threshold, ask.Late = time.Minute, 0
		adopted, err := c.Store.Adopt(c.ctx, s, ask)
		c.must(err)
		equal(c, "adopted without slots", len(adopted), 0)
		ask.Late = 1
		for _, want := range []uuid.UUID{late.Run, c.runsOf(b)[0].ID} {
			adopted, err = c.Store.Adopt(c.ctx, s, ask)
			c.must(err)
			if len(adopted) != 1 || adopted[0].ID != want {
				c.Fatalf("adopted %+v, want run %s", adopted, want)
			}
			ask.Known = append(ask.Known, want)
		}
		equal(c, "backfill", adopted[0].Backfill, b.id)
	}},
	{"the recovery of a lost run belongs to the backfill", func(c *check) {
		c.recovering("a")
		s := c.session("one")
		b := c.backfill(c.pastHours(1), 1)
		c.advance(b)
		c.granted(s, c.waitingOf(s)[0])
		c.Expire(s)
		c.sweep()
		c.counts(c.advance(b), storage.BackfillActive, 0, 1, 0, 0)
		runs := c.runsOf(b)
		if len(runs) != 2 || runs[0].Recovery+runs[1].Recovery != 1 {
			c.Fatalf("runs %+v, want a lost one and its recovery", runs)
		}
		other := c.session("two")
		recovery := c.waitingOf(other)[0]
		equal(c, "recovery", recovery.Firing.Recovery, 1)
		c.finished(recovery, c.granted(other, recovery), jobs.Succeeded)
		c.counts(c.advance(b), storage.BackfillCompleted, 0, 1, 1, 0)
	}},
	{"a success of a backfill is a previous success", func(c *check) {
		c.register("h", "a")
		s, times := c.session("one"), c.pastHours(1)
		c.advance(c.backfill(times, 1))
		run := c.waitingOf(s)[0]
		c.previous(c.now(), time.Time{})
		c.finished(run, c.granted(s, run), jobs.Succeeded)
		c.previous(c.now(), times[0])
		c.previous(times[0], time.Time{})
	}},
	{"the start delay of a run counts from its creation", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		c.advance(c.backfill(c.pastHours(3), 1))
		run := c.waitingOf(s)[0]
		c.finished(run, c.granted(s, run), jobs.Succeeded)
		c.sweep()
		c.sameHistogram()
	}},
	{"the retention of runs of triggers is not that of runs of backfills", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		b := c.backfill(c.pastHours(3), 1)
		for range 2 {
			c.advance(b)
			run := c.waitingOf(s)[0]
			c.finished(run, c.granted(s, run), jobs.Succeeded)
		}
		equal(c, "runs", c.prune(s,
			storage.PruneRequest{Keep: atOnce, Triggered: true, Limit: 10}).Runs, 0)
	}},
}

// runsOf returns the runs of the backfill, the oldest first.
func (c *check) runsOf(b backfilling) []storage.Record {
	c.Helper()
	runs := c.runs(storage.RunFilter{Backfill: b.id})
	slices.SortFunc(runs, func(a, b storage.Record) int {
		return a.ScheduledAt.Compare(b.ScheduledAt)
	})
	return runs
}

// waitingOf adopts the runs of job "a" for the session and returns their start requests, by
// scheduled time.
func (c *check) waitingOf(s uuid.UUID, requests ...locking.Request) []storage.StartRequest {
	c.Helper()
	adopted := c.adopt(s, 10, "a")
	slices.SortFunc(adopted, func(a, b storage.Record) int {
		return a.ScheduledAt.Compare(b.ScheduledAt)
	})
	starts := make([]storage.StartRequest, len(adopted))
	for i, r := range adopted {
		starts[i] = c.startOf(storage.Triggered{Record: r}, requests...)
		starts[i].Firing.Recovery, starts[i].Reserve = r.Recovery, time.Hour
	}
	return starts
}
