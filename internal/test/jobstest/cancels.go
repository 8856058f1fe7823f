package jobstest

import (
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// cancel cancels the run.
func (c *check) cancel(run uuid.UUID) storage.Record {
	c.Helper()
	record, err := c.Store.Cancel(c.ctx,
		storage.Action{Actor: "ann", Via: "go", Reason: "too long"},
		run)
	c.must(err)
	return record
}

var cancelRules = []rule{
	{"a waiting run is cancelled at once, even while its replica tries to start it", func(c *check) {
		c.register("h", "a", "b")
		s := c.session("one")
		r := c.waiting(s, "a", 1, table("s/t"))
		cancelled := c.cancel(r.Run)
		record := c.record(r.Run, jobs.Cancelled)
		c.same(cancelled, record)
		equal(c, "reason", record.Reason, reasons.Cancelled)
		if record.FinishedAt == nil || record.BlockedBy != nil ||
			!strings.Contains(record.Detail, "ann") ||
			!strings.Contains(record.Detail, "too long") {
			c.Errorf("cancelled run %+v", record)
		}
		c.outcome(s, r, storage.StartDuplicate)
		equal(c, "note", c.note(s, noteOf(r, jobs.Waiting, reasons.LockHeld)), false)
		equal(c, "note", c.note(s, noteOf(r, jobs.Skipped, reasons.LockHeld)), false)
		c.same(c.record(r.Run, jobs.Cancelled), record)
		c.granted(s, request("b", 2, table("s/t"))) // the cancelled run blocks no other run
		equal(c, "waiting", len(c.runs(storage.RunFilter{States: []jobs.State{jobs.Waiting}})), 0)
	}},
	{"a triggered run without a replica is cancelled and not adopted", func(c *check) {
		c.register("h", "a")
		run, err := c.trigger("a", "k")
		c.must(err)
		equal(c, "state", c.cancel(run.ID).State, jobs.Cancelled)
		equal(c, "adopted", len(c.adopt(c.session("one"), 10, "a")), 0)
	}},
	{"a running run continues until its session ends it", func(c *check) {
		one, two := c.session("one"), c.session("two")
		r := request("a", 1, table("s/t"))
		token := c.granted(one, r)
		equal(c, "state", c.cancel(r.Run).State, jobs.Running)
		c.cancel(r.Run)
		equal(c, "cancels", c.controlState(one, -1).Cancels[r.Run], "ann")
		equal(c, "cancels of another session", len(c.controlState(two, -1).Cancels), 0)
		equal(c, "cancels of all", len(c.controlState(uuid.Nil, -1).Cancels), 0)
		c.finished(r, token, jobs.Cancelled)
		equal(c, "cancels of ended runs", len(c.controlState(one, -1).Cancels), 0)
		c.sweep()
		equal(c, "cancels after a sweep", len(c.controlState(one, -1).Cancels), 0)
	}},
	{"a cancel stays after the attempt ends and after a sweep", func(c *check) {
		one := c.session("one")
		r := request("a", 1)
		token := c.granted(one, r)
		c.cancel(r.Run)
		c.finished(r, token, jobs.Waiting)
		equal(c, "cancels of waiting runs", len(c.controlState(one, -1).Cancels), 0)
		c.sweep()
		r.Attempt = 2
		c.granted(one, r)
		equal(c, "cancels of the next attempt", len(c.controlState(one, -1).Cancels), 1)
	}},
	{"a lost run with a cancel is not recovered", func(c *check) {
		c.recovering("a")
		one := c.session("one")
		cancelled, other := request("a", 1), request("a", 2)
		c.granted(one, cancelled)
		c.granted(one, other)
		c.cancel(cancelled.Run)
		c.Expire(one)
		equal(c, "lost", len(c.sweep().Lost), 2)
		recovered := c.runs(storage.RunFilter{States: []jobs.State{jobs.Waiting}})
		if len(recovered) != 1 || !recovered[0].ScheduledAt.Equal(other.Firing.ScheduledAt) {
			c.Errorf("recovered %+v, want only the other run", recovered)
		}
	}},
	{"an ended or unknown run cannot be cancelled", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		c.finished(r, c.granted(s, r), jobs.Succeeded)
		_, err := c.Store.Cancel(c.ctx, action, r.Run)
		c.refused("a run that has ended", err, storage.ErrConflict)
		_, err = c.Store.Cancel(c.ctx, action, uuid.New())
		c.refused("an unknown run", err, storage.ErrNotFound)
		c.record(r.Run, jobs.Succeeded)
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 0)
	}},
	{"a concurrent cancel is before a start or after it", func(c *check) {
		s := c.session("one")
		var cancelled, started atomic.Int64
		for n := range 40 {
			r := c.waiting(s, "a", n)
			done := make(chan storage.Record, 1)
			go func() {
				record, err := c.Second().Cancel(c.ctx, action, r.Run)
				if err != nil {
					c.Errorf("cancel: %v", err)
				}
				done <- record
			}()
			result := c.start(s, r)[0]
			record := <-done
			switch {
			case result.Outcome == storage.StartGranted && record.State == jobs.Running:
				started.Add(1)
				equal(c, "cancels", len(c.controlState(s, -1).Cancels), 1)
				c.finished(r, result.Token, jobs.Cancelled)
			case result.Outcome == storage.StartDuplicate && record.State == jobs.Cancelled:
				cancelled.Add(1)
				c.record(r.Run, jobs.Cancelled)
			default:
				c.Fatalf("start: %+v, cancel: %+v", result, record)
			}
			equal(c, "locks", len(c.locks()), 0)
		}
		c.Logf("%d cancelled before their start, %d after it", cancelled.Load(), started.Load())
	}},
}
