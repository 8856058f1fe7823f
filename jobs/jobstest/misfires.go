package jobstest

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

var misfireRules = []rule{
	{"the first registration starts the cursor at the store's now", func(c *check) {
		before := c.now()
		c.register("h", "a")
		cursor := c.cursor(c.now().Add(time.Hour))
		within(c, "cursor", cursor.CheckedUntil, before, c.now())
		equal(c, "started", len(cursor.Started), 0)
	}},
	{"registering again leaves the cursor", func(c *check) {
		c.register("h", "a")
		until := c.now().Add(time.Hour)
		c.cursor(until)
		c.register("h", "a")
		cursor := c.cursor(until.Add(time.Hour))
		equal(c, "cursor", cursor.CheckedUntil, until)
	}},
	{"a changed definition's dues count from its registration", func(c *check) {
		c.register("h1", "a")
		before := c.now()
		c.register("h2", "a")
		within(c, "cursor", c.cursor(c.now().Add(time.Hour)).CheckedUntil, before, c.now())
	}},
	{"a changed definition does not move the cursor back", func(c *check) {
		c.register("h1", "a")
		until := c.now().Add(time.Hour)
		c.cursor(until)
		c.register("h2", "a")
		equal(c, "cursor", c.cursor(until.Add(time.Hour)).CheckedUntil, until)
	}},
	{"the cursor moves to where it was checked", func(c *check) {
		c.register("h", "a")
		first := c.now().Add(time.Hour)
		c.cursor(first)
		c.noCursor(first)
		c.noCursor(first.Add(-time.Minute))
		second := first.Add(time.Microsecond)
		equal(c, "cursor", c.cursor(second).CheckedUntil, first)
		c.noCursor(second)
	}},
	{"only named jobs are checked", func(c *check) {
		c.register("h", "a", "b")
		until := c.now().Add(time.Hour)
		var asked []string
		_, err := c.Store.CheckMisfires(c.ctx, map[string]time.Time{"b": until, "unknown": until}, func(job string, _ jobs.Cursor) []jobs.Misfired {
			asked = append(asked, job)
			return nil
		})
		c.must(err)
		if !slices.Equal(asked, []string{"b"}) {
			c.Errorf("asked for %v, expected b alone", asked)
		}
		c.cursor(until)
	}},
	{"dues that have a run or a record are told, sorted", func(c *check) {
		s := c.session("one")
		c.register("h", "a", "b")
		now := c.now()
		at := func(minutes int) jobs.StartRequest {
			r := request("a", 0)
			r.Firing.Due = now.Add(time.Duration(minutes) * time.Minute)
			return r
		}
		skipped, early, late := at(3), at(1), at(2)
		equal(c, "skip", c.note(s, noteOf(skipped, jobs.Skipped, jobs.ReasonLockHeld)), true)
		c.finished(late, c.granted(s, late), jobs.Failed)
		c.granted(s, early)
		manual, otherJob, tooOld, tooNew := at(4), at(5), at(-60), at(120)
		manual.Firing.Key, otherJob.Firing.Job = "k", "b"
		c.start(s, manual, otherJob, tooOld, tooNew)
		got := c.cursor(now.Add(time.Hour)).Started
		want := []time.Time{early.Firing.Due, late.Firing.Due, skipped.Firing.Due}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			c.Errorf("started %v, expected %v", got, want)
		}
	}},
	{"what is found is written once", func(c *check) {
		c.register("h", "a")
		now := c.now()
		missed := misfired("a", now.Add(time.Minute), jobs.Missed, jobs.ReasonSuperseded)
		late := misfired("a", now.Add(2*time.Minute), jobs.Waiting, jobs.ReasonMisfire)
		c.misfire(now.Add(time.Hour), missed, late)
		record := c.record(missed.Run, jobs.Missed)
		if record.FinishedAt == nil || record.Reason != missed.Reason || record.Detail != missed.Detail || !record.Due.Equal(missed.Firing.Due) {
			c.Errorf("missed run %+v", record)
		}
		adopted := c.adopt(c.session("one"), 10, "a")
		if len(adopted) != 1 || adopted[0].ID != late.Run || !adopted[0].Due.Equal(late.Firing.Due) {
			c.Errorf("adopted %+v, expected run %s", adopted, late.Run)
		}
		again := misfired("a", missed.Firing.Due, jobs.Missed, jobs.ReasonMisfire)
		c.misfire(now.Add(2*time.Hour), again)
		c.absent(again.Run)
	}},
	{"a misfire keeps others from starting the due", func(c *check) {
		c.register("h", "a")
		m := misfired("a", c.now().Add(time.Minute), jobs.Missed, jobs.ReasonMisfire)
		c.misfire(c.now().Add(time.Hour), m)
		r := request("a", 0)
		r.Firing = m.Firing
		c.outcome(c.session("one"), r, jobs.StartDuplicate)
	}},
	{"rows that meanwhile exist are kept", func(c *check) {
		s := c.session("one")
		c.register("h", "a")
		r := request("a", 0)
		r.Firing.Due = c.now().Add(time.Minute)
		token := c.granted(s, r)
		m := misfired("a", r.Firing.Due, jobs.Missed, jobs.ReasonMisfire)
		free := misfired("a", r.Firing.Due.Add(time.Minute), jobs.Missed, jobs.ReasonMisfire)
		c.misfire(c.now().Add(time.Hour), m, free)
		c.absent(m.Run)
		c.record(free.Run, jobs.Missed)
		c.record(r.Run, jobs.Running)
		c.finished(r, token, jobs.Succeeded)
	}},
	{"while one replica checks, another does not", func(c *check) {
		c.register("h", "a")
		until := map[string]time.Time{"a": c.now().Add(time.Hour)}
		second := true
		first, err := c.Store.CheckMisfires(c.ctx, until, func(string, jobs.Cursor) []jobs.Misfired {
			var err error
			second, err = c.Second.CheckMisfires(c.ctx, until, func(string, jobs.Cursor) []jobs.Misfired {
				c.Error("the second was asked")
				return nil
			})
			if err != nil {
				c.Error(err)
			}
			return nil
		})
		c.must(err)
		equal(c, "first checked", first, true)
		equal(c, "second checked", second, false)
	}},
	{"a long outage is written in one go", func(c *check) {
		c.register("h", "a")
		now := c.now()
		found := make([]jobs.Misfired, jobs.MaxBatch+200)
		for i := range found {
			found[i] = misfired("a", now.Add(time.Duration(i+1)*time.Second), jobs.Missed, jobs.ReasonSuperseded)
		}
		c.misfire(now.Add(time.Hour), found...)
		c.record(found[0].Run, jobs.Missed)
		c.record(found[len(found)-1].Run, jobs.Missed)
		equal(c, "runs", len(c.runs(jobs.RunFilter{Job: "a", Limit: jobs.MaxBatch})), jobs.MaxBatch)
	}},
}

func misfired(job string, due time.Time, state jobs.State, reason jobs.Reason) jobs.Misfired {
	return jobs.Misfired{Firing: jobs.Firing{Job: job, Due: due}, Run: uuid.New(), State: state, Reason: reason, Detail: "nobody was there"}
}

// cursor checks job a until then and returns the cursor that it had.
func (c *check) cursor(until time.Time) jobs.Cursor {
	c.Helper()
	var cursors []jobs.Cursor
	checked, err := c.Store.CheckMisfires(c.ctx, map[string]time.Time{"a": until}, func(_ string, cursor jobs.Cursor) []jobs.Misfired {
		cursors = append(cursors, cursor)
		return nil
	})
	c.must(err)
	if !checked || len(cursors) != 1 {
		c.Fatalf("checked %v, with cursors %v, expected one of job a", checked, cursors)
	}
	return cursors[0]
}

// noCursor fails the test if job a has a cursor before until.
func (c *check) noCursor(until time.Time) {
	c.Helper()
	_, err := c.Store.CheckMisfires(c.ctx, map[string]time.Time{"a": until}, func(_ string, cursor jobs.Cursor) []jobs.Misfired {
		c.Errorf("asked again from %s, expected it to be checked until %s", cursor.CheckedUntil, until)
		return nil
	})
	c.must(err)
}

// misfire finds these misfires of job a.
func (c *check) misfire(until time.Time, found ...jobs.Misfired) {
	c.Helper()
	checked, err := c.Store.CheckMisfires(c.ctx, map[string]time.Time{"a": until}, func(string, jobs.Cursor) []jobs.Misfired { return found })
	c.must(err)
	equal(c, "checked", checked, true)
}

func (c *check) absent(run uuid.UUID) {
	c.Helper()
	if _, err := c.Store.Run(c.ctx, run); !errors.Is(err, jobs.ErrNotFound) {
		c.Errorf("run %s: %v, expected ErrNotFound", run, err)
	}
}
