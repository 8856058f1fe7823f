package jobstest

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// afterwards runs a sweep, lets this much time pass, and runs another sweep.
func (c *check) afterwards(by time.Duration) {
	c.Helper()
	c.sweep()
	c.Pass(by)
	c.sweep()
}

var abandonRules = []rule{
	{"a run is skipped when no live replica has had its job for long", func(c *check) {
		leaves, stays := c.session("leaves"), c.session("stays")
		c.registerAll(leaves, "h", "a")
		c.registerAll(stays, "h", "b")
		gone, err := c.trigger("a", "k")
		c.must(err)
		kept, err := c.trigger("b", "k")
		c.must(err)
		c.afterwards(2 * storage.MaxAbsence) // a live session has the job
		c.record(gone.ID, jobs.Waiting)
		c.must(c.Store.End(c.ctx, leaves))
		c.afterwards(storage.MaxAbsence - time.Minute)
		c.record(gone.ID, jobs.Waiting)
		c.afterwards(2 * time.Minute)
		r := c.record(gone.ID, jobs.Skipped)
		equal(c, "reason", r.Reason, reasons.JobGone)
		equal(c, "detail", r.Detail, storage.JobGoneDetail)
		if r.FinishedAt == nil || r.StartedAt != nil || r.BlockedBy != nil {
			c.Errorf("skipped %+v", r)
		}
		waiting := c.runs(storage.RunFilter{States: []jobs.State{jobs.Waiting}})
		if len(waiting) != 1 || waiting[0].ID != kept.ID {
			c.Errorf("waiting %+v, want %s alone", waiting, kept.ID)
		}
		c.registerAll(stays, "h", "a")
		equal(c, "adopted", ids(c.adopt(stays, 10, "a", "b")), ids([]storage.Record{kept}))
	}},
	{"the time without a replica counts from the trigger of a run", func(c *check) {
		leaves := c.session("leaves")
		c.session("stays")
		c.registerAll(leaves, "h", "a")
		c.must(c.Store.End(c.ctx, leaves))
		c.afterwards(2 * storage.MaxAbsence)
		waits, err := c.trigger("a", "k")
		c.must(err)
		c.afterwards(storage.MaxAbsence - time.Minute)
		c.record(waits.ID, jobs.Waiting)
		c.afterwards(2 * time.Minute)
		c.record(waits.ID, jobs.Skipped)
	}},
	{"a run that waits for its next attempt is cancelled", func(c *check) {
		leaves := c.session("leaves")
		c.session("stays")
		c.registerAll(leaves, "h", "a")
		r := request("a", 1, table("s/t"))
		c.finished(r, c.granted(leaves, r), jobs.Waiting)
		c.must(c.Store.End(c.ctx, leaves))
		c.afterwards(storage.MaxAbsence + time.Minute)
		equal(c, "reason", c.record(r.Run, jobs.Cancelled).Reason, reasons.JobGone)
	}},
	{"the time starts again after a rolled-back deploy", func(c *check) {
		leaves, stays := c.session("leaves"), c.session("stays")
		c.registerAll(leaves, "h", "a")
		waits, err := c.trigger("a", "k")
		c.must(err)
		c.must(c.Store.End(c.ctx, leaves))
		c.afterwards(storage.MaxAbsence - time.Minute)
		back := c.session("back")
		c.registerAll(back, "another version", "a")
		c.afterwards(2 * time.Minute)
		c.record(waits.ID, jobs.Waiting)
		c.must(c.Store.End(c.ctx, back))
		c.afterwards(storage.MaxAbsence - time.Minute)
		c.record(waits.ID, jobs.Waiting)
		c.registerAll(stays, "h", "a")
		equal(c, "adopted", ids(c.adopt(stays, 10, "a")), ids([]storage.Record{waits}))
	}},
	{"the time does not count while no replica is alive", func(c *check) {
		leaves := c.session("leaves")
		c.registerAll(leaves, "h", "a")
		waits, err := c.trigger("a", "k")
		c.must(err)
		c.must(c.Store.End(c.ctx, leaves))
		c.afterwards(100 * time.Hour)
		c.record(waits.ID, jobs.Waiting)
		back := c.session("back")
		c.sweep() // before the session registers its jobs
		c.record(waits.ID, jobs.Waiting)
		c.registerAll(back, "h", "a")
		equal(c, "adopted", ids(c.adopt(back, 10, "a")), ids([]storage.Record{waits}))
	}},
	{"a waiting run of a live session is kept", func(c *check) {
		leaves, stays := c.session("leaves"), c.session("stays")
		c.registerAll(leaves, "h", "a")
		c.must(c.Store.End(c.ctx, leaves))
		waits := c.waiting(stays, "a", 1) // the session has not registered the job
		c.afterwards(2 * storage.MaxAbsence)
		c.granted(stays, waits)
	}},
	{"a skipped run blocks no other run", func(c *check) {
		leaves, stays := c.session("leaves"), c.session("stays")
		c.registerAll(leaves, "h", "a")
		holder := request("holder", 1, table("s/t"))
		token := c.granted(stays, holder)
		gone, behind := request("a", 1, table("s/t")), request("b", 2, table("s/t"))
		c.blocked(leaves, gone, reasons.LockHeld, holder)
		c.must(c.Store.End(c.ctx, leaves))
		c.afterwards(storage.MaxAbsence + time.Minute)
		c.record(gone.Run, jobs.Skipped)
		c.finished(holder, token, jobs.Succeeded)
		c.granted(stays, behind)
	}},
}
