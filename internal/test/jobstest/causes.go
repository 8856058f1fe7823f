package jobstest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// causeRules test the facts that a misfire check gets about scheduled times that did not start.
var causeRules = []rule{
	{"a check gets the pauses of job, group and cluster, oldest first", func(c *check) {
		c.register("h", "a")
		now := c.now()
		over := now.Add(50 * time.Minute)
		want := []storage.Pause{
			pauseOf(storage.TargetJob, "a", now.Add(10*time.Minute), &over),
			pauseOf(storage.TargetGroup, "night", now.Add(20*time.Minute), &over),
			pauseOf(storage.TargetAll, "", now.Add(30*time.Minute), &over),
			pauseOf(storage.TargetAll, "", now.Add(2*time.Hour), nil),
		}
		past := now.Add(-time.Minute)
		for _, p := range append(slices.Clone(want),
			pauseOf(storage.TargetJob, "b", now, &over),
			pauseOf(storage.TargetGroup, "day", now, &over),
			pauseOf(storage.TargetJob, "night", now, &over),
			pauseOf(storage.TargetGroup, "a", now, &over),
			pauseOf(storage.TargetGroup, "", now, &over),
			pauseOf(storage.TargetJob, "a", now.Add(-time.Hour), &past)) {
			c.Pause(p)
		}
		got := c.checkInGroup("night", now.Add(time.Hour))[0].Pauses
		if len(got) != len(want) {
			c.Fatalf("got %+v, want %+v", got, want)
		}
		for i, p := range got {
			if !p.At.Equal(want[i].At) || p.ID != want[i].ID || p.Target != want[i].Target ||
				p.By != want[i].By || p.Reason != want[i].Reason ||
				(p.ResumedAt == nil) != (want[i].ResumedAt == nil) ||
				p.ResumedAt != nil && !p.ResumedAt.Equal(over) || p.ResumedBy != want[i].ResumedBy {
				c.Errorf("got %+v, want %+v", p, want[i])
			}
		}
	}},
	{"a cursor does not pass the start of an open pause", func(c *check) {
		c.register("h", "a")
		now := c.now()
		p := pauseOf(storage.TargetGroup, "night", now.Add(10*time.Minute), nil)
		c.Pause(p)
		equal(c, "cursors of other groups", len(c.checkInGroup("day", now.Add(time.Minute))), 1)
		cursor := c.checkInGroup("night", now.Add(time.Hour))[0]
		equal(c, "until", cursor.Until, p.At.Add(-time.Microsecond))
		equal(c, "cursor", c.versions()["a"].CheckedUntil, cursor.Until)
	}},
	{"a check after the new position of the cursor ends at an open pause", func(c *check) {
		c.register("h", "a")
		now := c.now()
		p := pauseOf(storage.TargetJob, "a", now.Add(10*time.Minute), nil)
		c.Pause(p)
		check := storage.MisfireCheck{Job: "a", Version: 1, ScheduledAt: now.Add(2 * time.Minute),
			Until: now.Add(time.Minute), Last: now.Add(time.Hour)}
		var given []storage.Cursor
		_, err := c.Store.CheckMisfires(c.ctx, []storage.MisfireCheck{check},
			func(_ string, cursor storage.Cursor) []storage.Misfired {
				given = append(given, cursor)
				return nil
			})
		c.must(err)
		if len(given) != 1 || !given[0].Until.Equal(check.Until) ||
			!given[0].Last.Equal(p.At.Add(-time.Microsecond)) {
			c.Errorf("cursors %+v, want one that ends before the pause at %s", given, p.At)
		}
	}},
	{"scheduled times within a pause are checked when it has ended", func(c *check) {
		c.register("h", "a")
		now := c.now()
		p := pauseOf(storage.TargetJob, "a", now.Add(10*time.Minute), nil)
		c.Pause(p)
		check := storage.MisfireCheck{Job: "a", Version: 1, ScheduledAt: p.At,
			Until: now.Add(time.Hour)}
		before := c.versions()["a"].CheckedUntil
		cursors, err := c.Store.CheckMisfires(c.ctx, []storage.MisfireCheck{check},
			func(string, storage.Cursor) []storage.Misfired {
				c.Error("find was called during the pause")
				return nil
			})
		c.must(err)
		equal(c, "cursor", cursors["a"], before)
		equal(c, "stored cursor", c.versions()["a"].CheckedUntil, before)
	}},
	{"an ended pause does not stop the cursor", func(c *check) {
		c.register("h", "a")
		now := c.now()
		over := now.Add(20 * time.Minute)
		c.Pause(pauseOf(storage.TargetJob, "a", now.Add(10*time.Minute), &over))
		equal(c, "until", c.cursor(now.Add(time.Hour)).Until, now.Add(time.Hour))
	}},
	{"a check gets the times when replicas were alive", func(c *check) {
		before := c.now()
		gone := c.session("gone")
		c.register("h", "a")
		c.must(c.Store.End(c.ctx, gone))
		after := c.now()
		cursor := c.cursor(after.Add(time.Hour))
		ended, open := 0, 0
		for _, s := range cursor.Spans {
			within(c, "from", s.From, before, after)
			switch {
			case !s.Until.After(after):
				ended++
			case s.Until.After(after.Add(ttl / 2)):
				open++
			}
		}
		if ended < 1 || open < 1 {
			c.Errorf("spans %+v, want one that ended and one that is open", cursor.Spans)
		}
	}},
	{"a check gets the oldest waiting scheduled time that has not started", func(c *check) {
		s := c.session("one")
		c.register("h", "a")
		now := c.now()
		at := func(minutes int) storage.StartRequest {
			r := request("a", 0)
			r.Firing.ScheduledAt = now.Add(time.Duration(minutes) * time.Minute)
			return r
		}
		early, late, manual, again := at(-20), at(-10), at(-5), at(-4)
		manual.Firing.Key = "k"
		for _, r := range []storage.StartRequest{late, early, manual} {
			equal(c, "note", c.note(s, noteOf(r, jobs.Waiting, reasons.LockHeld)), true)
		}
		c.finished(again, c.granted(s, again), jobs.Waiting)
		equal(c, "waits", c.cursor(now.Add(time.Hour)).Waits, late.Firing.ScheduledAt)
		for _, r := range []storage.StartRequest{late, early} {
			equal(c, "skip", c.note(s, noteOf(r, jobs.Skipped, reasons.LockHeld)), true)
		}
		equal(c, "waits", c.cursor(now.Add(2*time.Hour)).Waits, time.Time{})
	}},
	{"a scheduled time past its deadline is recorded as skipped", func(c *check) {
		c.register("h", "a")
		m := misfired("a", c.now().Add(time.Minute), jobs.Skipped, reasons.Deadline)
		c.misfire(c.now().Add(time.Hour), m)
		if r := c.record(m.Run, jobs.Skipped); r.FinishedAt == nil ||
			r.Reason != reasons.Deadline || r.Detail != m.Detail {
			c.Errorf("skipped run %+v", r)
		}
	}},
}

func pauseOf(kind storage.TargetKind, name string, at time.Time, until *time.Time) storage.Pause {
	p := storage.Pause{ID: uuid.New(), Target: storage.Target{Kind: kind, Name: name}, At: at,
		By: "alice", Reason: "night shift", ResumedAt: until}
	if until != nil {
		p.ResumedBy = "bob"
	}
	return p
}

// checkInGroup checks job a of the group until then, and returns the cursors that find received.
func (c *check) checkInGroup(group string, until time.Time) []storage.Cursor {
	c.Helper()
	var given []storage.Cursor
	check := storage.MisfireCheck{Job: "a", Group: group, Version: 1,
		ScheduledAt: c.versions()["a"].CheckedUntil.Add(time.Microsecond), Until: until}
	_, err := c.Store.CheckMisfires(c.ctx, []storage.MisfireCheck{check},
		func(_ string, cursor storage.Cursor) []storage.Misfired {
			given = append(given, cursor)
			return nil
		})
	c.must(err)
	if len(given) == 0 {
		c.Fatal("find was not called")
	}
	return given
}
