package jobstest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var dependentRules = []rule{
	{"an open firing needs a run of each dependency and is ready when all have succeeded", func(c *check) {
		f, s := c.dependent()
		one, other := c.later("one", 1), c.later("other", 1)
		token := c.granted(s, one)
		c.openings(f)
		c.finished(one, token, jobs.Succeeded)
		c.openings(f)
		second := c.granted(s, other)
		c.openings(f, storage.OpenFiring{ScheduledAt: one.Firing.ScheduledAt})
		before := c.now()
		c.finished(other, second, jobs.Succeeded)
		got := c.openings(f, storage.OpenFiring{ScheduledAt: one.Firing.ScheduledAt, Ready: before})
		within(c, "ready", got[0].Ready, before, c.now())
	}},
	{"an open firing is ready when the last dependency has succeeded", func(c *check) {
		f, s := c.dependent()
		one, other := c.later("one", 1), c.later("other", 1)
		first, second := c.granted(s, one), c.granted(s, other)
		c.finished(other, second, jobs.Succeeded)
		before := c.now()
		c.finished(one, first, jobs.Succeeded)
		got := c.openings(f, storage.OpenFiring{ScheduledAt: one.Firing.ScheduledAt, Ready: before})
		within(c, "ready", got[0].Ready, before, c.now())
	}},
	{"an open firing closes when a dependency ends without success", func(c *check) {
		f, s := c.dependent()
		var waiting []storage.OpenFiring
		for i, state := range []jobs.State{jobs.Waiting, jobs.Failed, jobs.TimedOut, jobs.Cancelled,
			jobs.Skipped, jobs.Missed} {
			one, other := c.later("one", i), c.later("other", i)
			c.succeeded(s, one)
			equal(c, "note", c.note(s, noteOf(other, state, reasons.LockHeld)), true)
			if state == jobs.Waiting {
				waiting = append(waiting, storage.OpenFiring{ScheduledAt: one.Firing.ScheduledAt})
			}
		}
		c.openings(f, waiting...)
	}},
	{"a recovery opens a firing that a lost run closed", func(c *check) {
		c.recovering("other")
		f, s := c.dependent()
		one, other := c.later("one", 1), c.later("other", 1)
		c.succeeded(s, one)
		dying := c.session("dying")
		c.granted(dying, other)
		c.Expire(dying)
		c.sweep()
		c.openings(f, storage.OpenFiring{ScheduledAt: one.Firing.ScheduledAt})
		adopted := c.adopt(s, 10, "other")
		if len(adopted) != 1 || adopted[0].Recovery != 1 {
			c.Fatalf("adopted %+v, want a recovery", adopted)
		}
		again := other
		again.Run, again.Firing.Recovery = adopted[0].ID, 1
		before := c.now()
		c.succeeded(s, again)
		c.openings(f, storage.OpenFiring{ScheduledAt: one.Firing.ScheduledAt, Ready: before})
	}},
	{"a lost run without a recovery closes the firing", func(c *check) {
		f, s := c.dependent()
		one, other := c.later("one", 1), c.later("other", 1)
		c.succeeded(s, one)
		dying := c.session("dying")
		c.granted(dying, other)
		c.Expire(dying)
		c.sweep()
		c.openings(f)
	}},
	{"a triggered run of a dependency opens no firing", func(c *check) {
		f, s := c.dependent()
		for _, job := range []string{"one", "other"} {
			r := c.later(job, 1)
			r.Firing.Key = "k"
			c.succeeded(s, r)
		}
		c.openings(f)
	}},
	{"scheduled times before the cursor or with a run are not open firings", func(c *check) {
		f, s := c.dependent()
		var all []storage.OpenFiring
		before := c.now()
		for i := range 5 {
			one := c.later("one", i)
			c.succeeded(s, one)
			c.succeeded(s, c.later("other", i))
			all = append(all, storage.OpenFiring{ScheduledAt: one.Firing.ScheduledAt,
				Ready: before})
		}
		c.openings(f, all...)
		c.addDependents(c.dependentFiring("f", all[1].ScheduledAt))
		m := misfired("f", all[2].ScheduledAt, jobs.Missed, reasons.Misfire)
		check := checkOf("f", all[0].ScheduledAt)
		_, err := c.Store.CheckMisfires(c.ctx, []storage.MisfireCheck{check},
			func(string, storage.Cursor) []storage.Misfired { return []storage.Misfired{m} })
		c.must(err)
		c.openings(f, all[3:]...)
	}},
	{"open firings have the cursors of the dependent and its dependencies",
		func(c *check) {
			c.dependent()
			until := c.now().Add(time.Hour)
			_, err := c.Store.CheckMisfires(c.ctx, []storage.MisfireCheck{checkOf("one", until)},
				func(string, storage.Cursor) []storage.Misfired { return nil })
			c.must(err)
			found, err := c.Store.OpenFirings(c.ctx,
				[]storage.Dependent{{Job: "f", Version: 1,
					After: []string{"one", "unknown", "other"}}})
			c.must(err)
			versions, f := c.versions(), found["f"]
			if len(found) != 1 || len(f.ActiveDefinition) != 2 ||
				f.ActiveDefinition["one"] != versions["one"] ||
				f.ActiveDefinition["other"] != versions["other"] {
				c.Errorf("got %+v, want %+v of one and other", found, versions)
			}
			equal(c, "cursor", f.CheckedUntil, versions["f"].CheckedUntil)
		}},
	{"unknown dependents and dependents with another active version are left out",
		func(c *check) {
			_, s := c.dependent()
			c.succeeded(s, c.later("one", 1))
			found, err := c.Store.OpenFirings(c.ctx,
				[]storage.Dependent{{Job: "f", Version: 2, After: []string{"one"}},
					{Job: "nobody", Version: 1, After: []string{"one"}}})
			c.must(err)
			equal(c, "dependents", len(found), 0)
		}},
	{"several dependents of one job each get their own open firings", func(c *check) {
		f, s := c.dependent()
		c.register("h", "g")
		one := c.later("one", 1)
		before := c.now()
		c.succeeded(s, one)
		g := storage.Dependent{Job: "g", Version: 1, After: []string{"one"}}
		found, err := c.Store.OpenFirings(c.ctx, []storage.Dependent{f, g})
		c.must(err)
		c.sameOpenings(found["f"].ScheduledTimes)
		c.sameOpenings(found["g"].ScheduledTimes,
			storage.OpenFiring{ScheduledAt: one.Firing.ScheduledAt, Ready: before})
	}},
	{"the newest open firings are returned if there are many, and older ones on request", func(c *check) {
		c.register("h", "f", "one")
		s := c.session("replica")
		for n := range 2 {
			requests := make([]storage.StartRequest, 600)
			for i := range requests {
				requests[i] = c.later("one", 600*n+i)
			}
			c.start(s, requests...)
		}
		found, err := c.Store.OpenFirings(c.ctx,
			[]storage.Dependent{{Job: "f", Version: 1, After: []string{"one"}}})
		c.must(err)
		scheduledTimes := found["f"].ScheduledTimes
		if len(scheduledTimes) != storage.MaxBatch ||
			!scheduledTimes[len(scheduledTimes)-1].ScheduledAt.Equal(c.later("one", 1199).
				Firing.ScheduledAt) ||
			!slices.IsSortedFunc(scheduledTimes, func(a, b storage.OpenFiring) int {
				return a.ScheduledAt.Compare(b.ScheduledAt)
			}) {
			c.Errorf("got %d openings, want the last %d, sorted", len(scheduledTimes),
				storage.MaxBatch)
		}
		equal(c, "older", found["f"].Older, true)
		found, err = c.Store.OpenFirings(c.ctx,
			[]storage.Dependent{{Job: "f", Version: 1, After: []string{"one"},
				Before: scheduledTimes[0].ScheduledAt}})
		c.must(err)
		equal(c, "older than the older ones", found["f"].Older, false)
		older := make([]storage.OpenFiring, 1200-storage.MaxBatch)
		for i := range older {
			older[i].ScheduledAt = c.later("one", i).Firing.ScheduledAt
		}
		c.sameOpenings(found["f"].ScheduledTimes, older...)
	}},
	{"a run of a dependent is added once and any replica can adopt it", func(c *check) {
		_, s := c.dependent()
		scheduledAt := c.later("f", 1).Firing.ScheduledAt
		first, second := c.dependentFiring("f", scheduledAt), c.dependentFiring("f", scheduledAt)
		before := c.now()
		c.addDependents(first)
		c.addDependents(first)
		c.addDependents(second)
		c.absent(second.Run)
		r := c.record(first.Run, jobs.Waiting)
		if r.Job != "f" || !r.ScheduledAt.Equal(scheduledAt) || r.Key != "" ||
			r.Reason != reasons.After || r.Detail != first.Detail {
			c.Errorf("added %+v", r)
		}
		within(c, "created", r.CreatedAt, before, c.now())
		adopted := c.adopt(s, 10, "f")
		if len(adopted) != 1 || adopted[0].ID != first.Run {
			c.Errorf("adopted %+v, want run %s", adopted, first.Run)
		}
	}},
	{"replicas that add a run at the same time add one run", func(c *check) {
		c.dependent()
		scheduledAt := c.later("f", 1).Firing.ScheduledAt
		errs := make(chan error)
		for i := range 8 {
			store := c.Store
			if i%2 == 1 {
				store = c.Second()
			}
			go func() {
				errs <- store.AddDependents(c.ctx,
					[]storage.DependentFiring{c.dependentFiring("f", scheduledAt)})
			}()
		}
		for range 8 {
			c.must(<-errs)
		}
		equal(c, "runs", len(c.runs(storage.RunFilter{Job: "f"})), 1)
	}},
	{"a definition that is not active adds no run", func(c *check) {
		c.dependent()
		stale := c.dependentFiring("f", c.later("f", 1).Firing.ScheduledAt)
		stale.Version = 2
		unknown := c.dependentFiring("nobody", c.later("f", 1).Firing.ScheduledAt)
		c.addDependents(stale, unknown)
		c.absent(stale.Run)
		c.absent(unknown.Run)
	}},
}

// dependent registers f, which depends on one and other, and returns it with a session for runs.
func (c *check) dependent() (storage.Dependent, uuid.UUID) {
	c.Helper()
	c.register("h", "f", "one")
	if _, known := c.versions()["other"]; !known {
		c.register("h", "other")
	}
	return storage.Dependent{Job: "f", Version: 1, After: []string{"one", "other"}},
		c.session("replica")
}

// later requests a firing of the job that is scheduled an hour after the beginning of the test, or
// n minutes later.
func (c *check) later(job string, n int) storage.StartRequest {
	r := request(job, n)
	r.Firing.ScheduledAt = c.began.Truncate(time.Second).
		Add(time.Hour + time.Duration(n)*time.Minute)
	return r
}

func (c *check) succeeded(session uuid.UUID, r storage.StartRequest) {
	c.Helper()
	c.finished(r, c.granted(session, r), jobs.Succeeded)
}

func (c *check) dependentFiring(job string, scheduledAt time.Time) storage.DependentFiring {
	return storage.DependentFiring{Firing: storage.Firing{Job: job, ScheduledAt: scheduledAt},
		Run:     uuid.New(),
		Version: 1, Detail: "one and other succeeded"}
}

func (c *check) addDependents(dependentFiring ...storage.DependentFiring) {
	c.Helper()
	c.must(c.Store.AddDependents(c.ctx, dependentFiring))
}

// openings fails the test unless the dependent has these open firings: ready after the given times,
// or not ready.
func (c *check) openings(f storage.Dependent, want ...storage.OpenFiring) []storage.OpenFiring {
	c.Helper()
	found, err := c.Store.OpenFirings(c.ctx, []storage.Dependent{f})
	c.must(err)
	if _, there := found[f.Job]; !there || len(found) != 1 {
		c.Fatalf("got %+v, want %s", found, f.Job)
	}
	c.sameOpenings(found[f.Job].ScheduledTimes, want...)
	return found[f.Job].ScheduledTimes
}

func (c *check) sameOpenings(got []storage.OpenFiring, want ...storage.OpenFiring) {
	c.Helper()
	if !slices.EqualFunc(got, want, func(a, b storage.OpenFiring) bool {
		return a.ScheduledAt.Equal(b.ScheduledAt) && a.Ready.IsZero() == b.Ready.IsZero() &&
			!a.Ready.Before(b.Ready)
	}) {
		c.Fatalf("openings %+v, want %+v", got, want)
	}
}
