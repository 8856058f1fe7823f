package jobstest

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var misfireRules = []rule{
	{"the first registration sets the cursor to the store's time", func(c *check) {
		before := c.now()
		c.register("h", "a")
		cursor := c.cursor(c.now().Add(time.Hour))
		within(c, "cursor", cursor.CheckedUntil, before, c.now())
		equal(c, "started", len(cursor.Started), 0)
	}},
	{"a repeated registration does not move the cursor", func(c *check) {
		c.register("h", "a")
		until := c.now().Add(time.Hour)
		c.cursor(until)
		c.register("h", "a")
		cursor := c.cursor(until.Add(time.Hour))
		equal(c, "cursor", cursor.CheckedUntil, until)
	}},
	{"a changed definition does not move the cursor", func(c *check) {
		c.register("h1", "a")
		before := c.versions()["a"].CheckedUntil
		c.register("h2", "a")
		equal(c, "registered cursor", c.versions()["a"].CheckedUntil, before)
		equal(c, "cursor", c.cursor(c.now().Add(time.Hour)).CheckedUntil, before)
	}},
	{"a changed schedule or zone counts from the time when it becomes active", func(c *check) {
		s, old := c.session("one"), definition("a", "h1")
		moved, abroad := old, old
		moved.Hash, moved.Schedule = "h2", "@daily"
		abroad.Hash, abroad.Zone = "h3", "Europe/Berlin"
		for _, d := range []storage.Definition{old, moved, abroad, old} {
			before := c.now()
			_, err := c.Store.Register(c.ctx, s, []storage.Definition{d})
			c.must(err)
			within(c, "cursor", c.versions()["a"].CheckedUntil, before, c.now())
		}
		cursor := c.versions()["a"].CheckedUntil
		equal(c, "cursor", c.cursor(c.now().Add(time.Hour)).CheckedUntil, cursor)
	}},
	{"a changed schedule does not move the cursor back", func(c *check) {
		c.register("h1", "a")
		until := c.now().Add(time.Hour)
		c.cursor(until)
		moved := definition("a", "h2")
		moved.Schedule = "@daily"
		_, err := c.Store.Register(c.ctx, c.session("one"), []storage.Definition{moved})
		c.must(err)
		equal(c, "cursor", c.cursor(until.Add(time.Hour)).CheckedUntil, until)
	}},
	{"a check by a fast clock does not decide on future scheduled times", func(c *check) {
		c.register("h", "a")
		early := checkOf("a", c.now().Add(time.Hour))
		early.CallerTime = early.Until
		for _, last := range []time.Time{{}, early.Until.Add(time.Minute)} {
			early.Last = last
			cursors, err := c.Store.CheckMisfires(c.ctx, []storage.MisfireCheck{early},
				func(_ string, cursor storage.Cursor) []storage.Misfired {
					c.Errorf("asked until %s, at most for %s", cursor.Until, cursor.Last)
					return nil
				})
			c.must(err)
			if at := cursors["a"]; at.After(c.now()) {
				c.Errorf("the cursor is at %s, %s from now", at, at.Sub(c.now()))
			}
		}
	}},
	{"the cursor moves to the end of the checked range", func(c *check) {
		c.register("h", "a")
		first := c.now().Add(time.Hour)
		c.cursor(first)
		c.noCursor(first)
		c.noCursor(first.Add(-time.Minute))
		second := first.Add(time.Microsecond)
		equal(c, "cursor", c.cursor(second).CheckedUntil, first)
		c.noCursor(second)
	}},
	{"a check decides on scheduled times after the new position of the cursor", func(c *check) {
		c.register("h", "a")
		now := c.now()
		at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
		run := request("a", 0)
		run.Firing.ScheduledAt = at(3)
		c.granted(c.session("one"), run)
		first, last := misfired("a", at(2), jobs.Missed, reasons.Superseded),
			misfired("a", at(4), jobs.Waiting, reasons.Misfire)
		check := storage.MisfireCheck{Job: "a", Version: 1, ScheduledAt: at(2), Until: at(1),
			Last: at(4)}
		for _, started := range [][]time.Time{{at(3)}, {at(2), at(3), at(4)}} {
			asked := false
			cursors, err := c.Store.CheckMisfires(c.ctx, []storage.MisfireCheck{check},
				func(_ string, cursor storage.Cursor) []storage.Misfired {
					asked = true
					equal(c, "until", cursor.Until, check.Until)
					equal(c, "last", cursor.Last, check.Last)
					if !slices.EqualFunc(cursor.Started, started, time.Time.Equal) {
						c.Errorf("started %v, want %v", cursor.Started, started)
					}
					return []storage.Misfired{first, last}
				})
			c.must(err)
			equal(c, "asked", asked, true)
			equal(c, "cursor", cursors["a"], check.Until)
			equal(c, "stored cursor", c.versions()["a"].CheckedUntil, check.Until)
		}
		c.record(first.Run, jobs.Missed)
		c.record(last.Run, jobs.Waiting)
	}},
	{"a check does nothing if the cursor has passed the scheduled time", func(c *check) {
		c.register("h", "a", "b")
		reached, until := c.now().Add(time.Hour), c.now().Add(2*time.Hour)
		c.cursor(reached)
		checks := []storage.MisfireCheck{{Job: "a", Version: 1, ScheduledAt: reached, Until: until},
			{Job: "b", Version: 1, ScheduledAt: reached, Until: until}}
		var asked []string
		cursors, err := c.Store.CheckMisfires(c.ctx, checks,
			func(job string, _ storage.Cursor) []storage.Misfired {
				asked = append(asked, job)
				return nil
			})
		c.must(err)
		if !slices.Equal(asked, []string{"b"}) || !cursors["a"].Equal(reached) ||
			!cursors["b"].Equal(until) {
			c.Errorf("asked for %v, with cursors %v then, want b alone, and %s and %s", asked,
				cursors, reached, until)
		}
	}},
	{"only the requested jobs are checked, sorted by name", func(c *check) {
		c.register("h", "a", "b", "c")
		until := c.now().Add(time.Hour)
		var asked []string
		cursors, err := c.Store.CheckMisfires(c.ctx,
			[]storage.MisfireCheck{checkOf("c", until), checkOf("unknown", until),
				checkOf("b", until)},
			func(job string, _ storage.Cursor) []storage.Misfired {
				asked = append(asked, job)
				return nil
			})
		c.must(err)
		if !slices.Equal(asked, []string{"b", "c"}) || len(cursors) != 2 {
			c.Errorf("asked for %v, with cursors %v then, want b and c alone", asked, cursors)
		}
		c.cursor(until)
	}},
	{"jobs with another active definition are left out", func(c *check) {
		c.register("h1", "a")
		c.register("h2", "a")
		until := c.now().Add(time.Hour)
		for _, version := range []int64{1, 3} {
			check := checkOf("a", until)
			check.Version = version
			cursors, err := c.Store.CheckMisfires(c.ctx, []storage.MisfireCheck{check},
				func(string, storage.Cursor) []storage.Misfired {
					c.Errorf("asked by version %d", version)
					return nil
				})
			c.must(err)
			if cursors == nil || len(cursors) != 0 {
				c.Errorf("cursors %v, want none although no other session checks", cursors)
			}
		}
	}},
	{"a definition that is superseded during the check records nothing", func(c *check) {
		c.register("h1", "a", "b")
		until := c.now().Add(time.Hour)
		before := c.versions()["a"].CheckedUntil
		superseded, kept := misfired("a", until, jobs.Missed, reasons.Misfire),
			misfired("b", until, jobs.Missed, reasons.Misfire)
		cursors, err := c.Store.CheckMisfires(c.ctx,
			[]storage.MisfireCheck{checkOf("a", until), checkOf("b", until)},
			func(job string, _ storage.Cursor) []storage.Misfired {
				if job == "b" {
					return []storage.Misfired{kept}
				}
				_, err := c.Second().Register(c.ctx, c.session("newer"),
					[]storage.Definition{definition("a", "h2")})
				c.must(err)
				return []storage.Misfired{superseded}
			})
		c.must(err)
		if _, checked := cursors["a"]; checked || !cursors["b"].Equal(until) {
			c.Errorf("cursors %v, want b's alone", cursors)
		}
		c.absent(superseded.Run)
		c.record(kept.Run, jobs.Missed)
		equal(c, "cursor", c.versions()["a"].CheckedUntil, before)
	}},
	{"a check gets the scheduled times with runs, sorted", func(c *check) {
		s := c.session("one")
		c.register("h", "a", "b")
		now := c.now()
		at := func(minutes int) storage.StartRequest {
			r := request("a", 0)
			r.Firing.ScheduledAt = now.Add(time.Duration(minutes) * time.Minute)
			return r
		}
		skipped, early, late := at(3), at(1), at(2)
		equal(c, "skip", c.note(s, noteOf(skipped, jobs.Skipped, reasons.LockHeld)), true)
		c.finished(late, c.granted(s, late), jobs.Failed)
		c.granted(s, early)
		manual, otherJob, tooOld, tooNew := at(4), at(5), at(-60), at(120)
		manual.Firing.Key, otherJob.Firing.Job = "k", "b"
		c.start(s, manual, otherJob, tooOld, tooNew)
		got := c.cursor(now.Add(time.Hour)).Started
		want := []time.Time{early.Firing.ScheduledAt, late.Firing.ScheduledAt,
			skipped.Firing.ScheduledAt}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			c.Errorf("started %v, want %v", got, want)
		}
	}},
	{"misfires are recorded once", func(c *check) {
		c.register("h", "a")
		now := c.now()
		missed := misfired("a", now.Add(time.Minute), jobs.Missed, reasons.Superseded)
		late := misfired("a", now.Add(2*time.Minute), jobs.Waiting, reasons.Misfire)
		c.misfire(now.Add(time.Hour), missed, late)
		record := c.record(missed.Run, jobs.Missed)
		if record.FinishedAt == nil || record.Reason != missed.Reason ||
			record.Detail != missed.Detail || !record.ScheduledAt.Equal(missed.Firing.ScheduledAt) {
			c.Errorf("missed run %+v", record)
		}
		adopted := c.adopt(c.session("one"), 10, "a")
		if len(adopted) != 1 || adopted[0].ID != late.Run ||
			!adopted[0].ScheduledAt.Equal(late.Firing.ScheduledAt) {
			c.Errorf("adopted %+v, want run %s", adopted, late.Run)
		}
		again := misfired("a", missed.Firing.ScheduledAt, jobs.Missed, reasons.Misfire)
		c.misfire(now.Add(2*time.Hour), again)
		c.absent(again.Run)
	}},
	{"a recorded misfire prevents a start of its scheduled time", func(c *check) {
		c.register("h", "a")
		m := misfired("a", c.now().Add(time.Minute), jobs.Missed, reasons.Misfire)
		c.misfire(c.now().Add(time.Hour), m)
		r := request("a", 0)
		r.Firing = m.Firing
		c.outcome(c.session("one"), r, storage.StartDuplicate)
	}},
	{"a check keeps runs that exist already", func(c *check) {
		s := c.session("one")
		c.register("h", "a")
		r := request("a", 0)
		r.Firing.ScheduledAt = c.now().Add(time.Minute)
		token := c.granted(s, r)
		m := misfired("a", r.Firing.ScheduledAt, jobs.Missed, reasons.Misfire)
		free := misfired("a", r.Firing.ScheduledAt.Add(time.Minute), jobs.Missed,
			reasons.Misfire)
		c.misfire(c.now().Add(time.Hour), m, free)
		c.absent(m.Run)
		c.record(free.Run, jobs.Missed)
		c.record(r.Run, jobs.Running)
		c.finished(r, token, jobs.Succeeded)
	}},
	{"only one replica checks at a time", func(c *check) {
		c.register("h", "a")
		checks := []storage.MisfireCheck{checkOf("a", c.now().Add(time.Hour))}
		first, err := c.Store.CheckMisfires(c.ctx, checks,
			func(string, storage.Cursor) []storage.Misfired {
				second, err := c.Second().CheckMisfires(c.ctx, checks,
					func(string, storage.Cursor) []storage.Misfired {
						c.Error("calls of the second function: got one, want none")
						return nil
					})
				if second != nil || err != nil {
					c.Errorf("the second checked: %v, %v", second, err)
				}
				return nil
			})
		c.must(err)
		equal(c, "checked by the first", len(first), 1)
	}},
	{"a long outage is recorded in one call", func(c *check) {
		c.register("h", "a")
		now := c.now()
		found := make([]storage.Misfired, storage.MaxBatch+200)
		for i := range found {
			found[i] = misfired("a", now.Add(time.Duration(i+1)*time.Second), jobs.Missed,
				reasons.Superseded)
		}
		c.misfire(now.Add(time.Hour), found...)
		c.record(found[0].Run, jobs.Missed)
		c.record(found[len(found)-1].Run, jobs.Missed)
		equal(c, "runs", len(c.runs(storage.RunFilter{Job: "a", Limit: storage.MaxBatch})),
			storage.MaxBatch)
	}},
}

func misfired(job string, scheduledAt time.Time, state jobs.State,
	reason jobs.Reason) storage.Misfired {
	return storage.Misfired{Firing: storage.Firing{Job: job, ScheduledAt: scheduledAt},
		Run:   uuid.New(),
		State: state, Reason: reason, Detail: "nobody was there"}
}

// checkOf checks all scheduled times of the job's first definition.
func checkOf(job string, until time.Time) storage.MisfireCheck {
	return storage.MisfireCheck{Job: job, Version: 1, ScheduledAt: until, Until: until}
}

// check checks job a until then by the active definition, and returns the cursors that find
// received.
func (c *check) check(until time.Time, found ...storage.Misfired) []storage.Cursor {
	c.Helper()
	check := checkOf("a", until)
	check.Version = c.versions()["a"].Version
	var given []storage.Cursor
	cursors, err := c.Store.CheckMisfires(c.ctx, []storage.MisfireCheck{check},
		func(_ string, cursor storage.Cursor) []storage.Misfired {
			given = append(given, cursor)
			return found
		})
	c.must(err)
	if now := c.versions()["a"].CheckedUntil; len(cursors) != 1 || !cursors["a"].Equal(now) ||
		now.Before(until) {
		c.Errorf("cursors %v, want one of job a, as it now is: %s", cursors, now)
	}
	return given
}

// cursor checks job a until then and returns its cursor.
func (c *check) cursor(until time.Time) storage.Cursor {
	c.Helper()
	given := c.check(until)
	if len(given) != 1 {
		c.Fatalf("checked with cursors %v, want one", given)
	}
	return given[0]
}

// noCursor fails the test if job a has a cursor before until.
func (c *check) noCursor(until time.Time) {
	c.Helper()
	equal(c, "times asked again", len(c.check(until)), 0)
}

// misfire records these misfires of job a.
func (c *check) misfire(until time.Time, found ...storage.Misfired) {
	c.Helper()
	equal(c, "times asked", len(c.check(until, found...)), 1)
}

func (c *check) absent(run uuid.UUID) {
	c.Helper()
	if _, err := c.Store.Run(c.ctx, run); !errors.Is(err, storage.ErrNotFound) {
		c.Errorf("run %s: %v, want ErrNotFound", run, err)
	}
}
