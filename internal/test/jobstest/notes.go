package jobstest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var noteRules = []rule{
	{"a note records a firing as waiting and then as skipped", func(c *check) {
		s := c.session("one")
		r := request("a", 1, table("s/t"))
		n := noteOf(r, jobs.Waiting, reasons.LockHeld)
		n.Blocker = &jobs.Blocker{Resource: "s/t",
			Holder: locking.Owner{Replica: "x", Job: "y", Run: "z"}}
		equal(c, "waiting", c.note(s, n), true)
		waiting := c.record(r.Run, jobs.Waiting)
		if waiting.FinishedAt != nil || waiting.StartedAt != nil || waiting.BlockedBy == nil ||
			*waiting.BlockedBy != *n.Blocker {
			c.Errorf("waiting run %+v", waiting)
		}
		n.State, n.Requests, n.Detail = jobs.Skipped, nil, "gave up after 5 tries"
		equal(c, "skipped", c.note(s, n), true)
		skipped := c.record(r.Run, jobs.Skipped)
		if skipped.FinishedAt == nil || skipped.StartedAt != nil || skipped.BlockedBy == nil ||
			skipped.Token != 0 {
			c.Errorf("skipped run %+v", skipped)
		}
		equal(c, "reason", skipped.Reason, reasons.LockHeld)
		equal(c, "detail", skipped.Detail, n.Detail)
		equal(c, "replica", skipped.Replica, "one")
		equal(c, "scheduled_at", skipped.ScheduledAt, r.Firing.ScheduledAt)
	}},
	{"a session may note its run that was held back", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		r := c.waiting(s, "a", 1)
		c.pause(jobA)
		c.outcome(s, r, storage.StartPaused)
		equal(c, "of another replica",
			c.note(c.session("two"), noteOf(r, jobs.Skipped, reasons.Paused)), false)
		equal(c, "noted", c.note(s, noteOf(r, jobs.Skipped, reasons.Paused)), true)
		equal(c, "noted again, after a lost reply",
			c.note(s, noteOf(r, jobs.Skipped, reasons.Paused)), true)
		c.record(r.Run, jobs.Skipped)
	}},
	{"a note can record every final state", func(c *check) {
		s := c.session("one")
		for i, state := range []jobs.State{jobs.Skipped, jobs.Cancelled, jobs.Failed, jobs.Missed} {
			n := noteOf(request("a", i), state, reasons.Cancelled)
			n.Error = "it broke"
			equal(c, string(state), c.note(s, n), true)
			equal(c, "error", c.record(n.Run, state).Error, "it broke")
		}
	}},
	{"a note without an error keeps the error of the last attempt", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		_, err := c.Store.Finish(c.ctx,
			[]storage.FinishRequest{{Run: r.Run, Token: c.granted(s, r), State: jobs.Waiting,
				Reason: reasons.Retry, Error: "try 1"}})
		c.must(err)
		equal(c, "note", c.note(s, noteOf(r, jobs.Waiting, reasons.NoWorker)), true)
		waits := c.record(r.Run, jobs.Waiting)
		equal(c, "error", waits.Error, "try 1")
		equal(c, "attempt", waits.Attempt, 2)
		n := noteOf(r, jobs.Failed, reasons.LockHeld)
		n.Error = "never came to try 2"
		equal(c, "note", c.note(s, n), true)
		equal(c, "error", c.record(r.Run, jobs.Failed).Error, n.Error)
	}},
	{"a note cancels a run that waits for its next attempt", func(c *check) {
		s := c.session("one")
		r := request("a", 1, table("s/t"))
		_, err := c.Store.Finish(c.ctx,
			[]storage.FinishRequest{{Run: r.Run, Token: c.granted(s, r), State: jobs.Waiting,
				Reason: reasons.Retry, Error: "try 1"}})
		c.must(err)
		equal(c, "note", c.note(s, noteOf(r, jobs.Cancelled, reasons.JobGone)), true)
		ended := c.record(r.Run, jobs.Cancelled)
		equal(c, "reason", ended.Reason, reasons.JobGone)
		equal(c, "error", ended.Error, "try 1")
		if ended.FinishedAt == nil || ended.StartedAt == nil {
			c.Errorf("cancelled run %+v", ended)
		}
	}},
	{"a repeated note succeeds", func(c *check) {
		s := c.session("one")
		for _, state := range []jobs.State{jobs.Waiting, jobs.Skipped} {
			n := noteOf(request("a", 1, table("s/t")), state, reasons.LockHeld)
			n.Firing.Key = string(state)
			equal(c, "first", c.note(s, n), true)
			equal(c, "resent", c.note(s, n), true)
			c.record(n.Run, state)
		}
	}},
	{"a note is refused if the firing has another run", func(c *check) {
		one, two := c.session("one"), c.session("two")
		runs, waits, skipped := request("runs", 1, table("s/t")), request("waits", 1, table("s/t")),
			request("skipped", 1)
		c.granted(one, runs)
		c.blocked(one, waits, reasons.LockHeld, runs)
		equal(c, "skip", c.note(one, noteOf(skipped, jobs.Skipped, reasons.LockHeld)), true)
		for _, r := range []storage.StartRequest{runs, waits, skipped} {
			r.Run = uuid.New()
			for _, state := range []jobs.State{jobs.Waiting, jobs.Skipped} {
				equal(c, fmt.Sprintf("%s of %s", state, r.Firing.Job),
					c.note(two, noteOf(r, state, reasons.LockHeld)), false)
			}
			if _, err := c.Store.Run(c.ctx, r.Run); !errors.Is(err, storage.ErrNotFound) {
				c.Errorf("a refused note of %s left a run: %v", r.Firing.Job, err)
			}
		}
		c.record(waits.Run, jobs.Waiting)
	}},
	{"a note is refused if the run has started or ended", func(c *check) {
		s := c.session("one")
		r := request("a", 1, table("s/t"))
		token := c.granted(s, r)
		equal(c, "skip of a running one", c.note(s, noteOf(r, jobs.Skipped, reasons.LockHeld)),
			false)
		equal(c, "wait of a running one", c.note(s, noteOf(r, jobs.Waiting, reasons.LockHeld)),
			false)
		c.record(r.Run, jobs.Running)
		c.finished(r, token, jobs.Succeeded)
		equal(c, "skip of an ended one", c.note(s, noteOf(r, jobs.Skipped, reasons.LockHeld)),
			false)
		equal(c, "wait of an ended one", c.note(s, noteOf(r, jobs.Waiting, reasons.LockHeld)),
			false)
		c.record(r.Run, jobs.Succeeded)
	}},
	{"a note is refused for a waiting run of another session", func(c *check) {
		one, two := c.session("one"), c.session("two")
		r := request("a", 1, table("s/t"))
		equal(c, "first", c.note(one, noteOf(r, jobs.Waiting, reasons.LockHeld)), true)
		equal(c, "skip by another", c.note(two, noteOf(r, jobs.Skipped, reasons.LockHeld)),
			false)
		c.record(r.Run, jobs.Waiting)
	}},
	{"a session can start the run of its note", func(c *check) {
		s := c.session("one")
		r := request("a", 1, table("s/t"))
		equal(c, "note", c.note(s, noteOf(r, jobs.Waiting, reasons.LockHeld)), true)
		c.granted(s, r)
		c.record(r.Run, jobs.Running)
	}},
	{"the first of two notes of one firing in a batch succeeds", func(c *check) {
		s := c.session("one")
		for n, fresh := range []bool{false, true} {
			notes := []storage.Note{
				noteOf(request("b", n), jobs.Skipped, reasons.LockHeld),
				noteOf(request("a", n), jobs.Skipped, reasons.LockHeld),
				noteOf(request("b", n), jobs.Skipped, reasons.LockHeld),
			}
			for i := range notes {
				notes[i].New = fresh
			}
			recorded, err := c.Store.Note(c.ctx, s, notes)
			c.must(err)
			if !slices.Equal(recorded, []bool{true, true, false}) {
				c.Errorf("notes (new: %t): %v, want [true true false]", fresh, recorded)
			}
		}
	}},
	{"notes of one batch may be of new firings and of waiting runs", func(c *check) {
		s := c.session("one")
		waits, isNew, resent, other := request("waits", 1, table("s/t")), request("new", 1),
			request("resent", 1), request("new", 1)
		equal(c, "note", c.note(s, noteOf(waits, jobs.Waiting, reasons.LockHeld)), true)
		equal(c, "note", c.note(s, noteOf(resent, jobs.Skipped, reasons.LockHeld)), true)
		notes := []storage.Note{noteOf(waits, jobs.Skipped, reasons.LockHeld),
			noteOf(isNew, jobs.Skipped, reasons.LockHeld),
			noteOf(resent, jobs.Skipped, reasons.LockHeld),
			noteOf(other, jobs.Skipped, reasons.LockHeld),
			noteOf(request("later", 1, table("s/t")), jobs.Waiting, reasons.LockHeld)}
		for i := range notes {
			notes[i].New = true // wrong for two of them
		}
		recorded, err := c.Store.Note(c.ctx, s, notes)
		c.must(err)
		if !slices.Equal(recorded, []bool{true, true, true, false, true}) {
			c.Errorf("notes: %v, want the fourth refused", recorded)
		}
		for i, want := range []jobs.State{jobs.Skipped, jobs.Skipped, jobs.Skipped, "",
			jobs.Waiting} {
			if want != "" {
				c.record(notes[i].Run, want)
			}
		}
	}},
	{"a note of a new firing is refused if another definition is active", func(c *check) {
		versions := c.register("old", "a")
		c.register("new", "a")
		s := c.session("one")
		n := noteOf(request("a", 1), jobs.Skipped, reasons.LockHeld)
		n.Version = versions["a"]
		equal(c, "note", c.note(s, n), false)
		if _, err := c.Store.Run(c.ctx, n.Run); !errors.Is(err, storage.ErrNotFound) {
			c.Errorf("a refused note left a run: %v", err)
		}
	}},
	{"a note of a lost session changes nothing", func(c *check) {
		s := c.session("one")
		waits := request("a", 1, table("s/t"))
		equal(c, "note", c.note(s, noteOf(waits, jobs.Waiting, reasons.LockHeld)), true)
		c.Expire(s)
		_, err := c.Store.Note(c.ctx, s,
			[]storage.Note{noteOf(waits, jobs.Skipped, reasons.LockHeld)})
		if !errors.Is(err, storage.ErrSessionLost) {
			c.Errorf("note of a lost session: %v, want ErrSessionLost", err)
		}
		c.record(waits.Run, jobs.Waiting)
		n := noteOf(request("b", 1), jobs.Skipped, reasons.LockHeld)
		n.New = true
		if _, err := c.Store.Note(c.ctx, s, []storage.Note{n}); !errors.Is(err,
			storage.ErrSessionLost) {
			c.Errorf("note of a new firing of a lost session: %v, want ErrSessionLost", err)
		}
		if _, err := c.Store.Run(c.ctx, n.Run); !errors.Is(err, storage.ErrNotFound) {
			c.Errorf("a note of a lost session left a run: %v", err)
		}
	}},
}
