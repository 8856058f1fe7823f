package jobstest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var historyRules = []rule{
	{"locks have resource, mode, holder, token and times, sorted by resource", func(c *check) {
		s := c.session("one")
		r := request("a", 1, table("s/t"), shared("s/r"), slot("api", 4), ownName("a"), path("p"))
		before := c.now()
		token := c.granted(s, r)
		after := c.now()
		locks := c.locks()
		var found []string
		for _, l := range locks {
			found = append(found, fmt.Sprintf("%s %s %d", l.Resource.Key(), l.Mode, l.Slots))
			equal(c, "token", l.Token, token)
			equal(c, "run", l.Holder.Run, r.Run.String())
			equal(c, "job", l.Holder.Job, "a")
			equal(c, "replica", l.Holder.Replica, "one")
			within(c, "since", l.Since, before, after)
			within(c, "expires", l.Expires, before.Add(ttl/2), after.Add(ttl))
		}
		want := []string{"job:a exclusive 0", "path:p exclusive 0", "slot:api slot 4",
			"table:s/r shared 0", "table:s/t exclusive 0"}
		if !slices.Equal(found, want) {
			c.Errorf("locks %q, want %q", found, want)
		}
	}},
	{"runs are listed youngest first, without output", func(c *check) {
		c.pastRuns(5)
		runs := c.runs(storage.RunFilter{})
		equal(c, "runs", len(runs), 5)
		for i, r := range runs {
			equal(c, "output", r.Output, "")
			if i > 0 && younger(r, runs[i-1]) {
				c.Errorf("run %d is younger than the one before", i)
			}
		}
		equal(c, "first", runs[0].ScheduledAt, firing("a", 4).ScheduledAt)
	}},
	{"a single run has its output", func(c *check) {
		id := c.pastRuns(1)[0]
		equal(c, "output", c.record(id, jobs.Succeeded).Output, "output 0")
	}},
	{"an unknown run is not found", func(c *check) {
		if _, err := c.Store.Run(c.ctx, uuid.New()); !errors.Is(err, storage.ErrNotFound) {
			c.Errorf("unknown run: %v, want ErrNotFound", err)
		}
	}},
	{"runs are filtered by job, state and replica", func(c *check) {
		one, two := c.session("one"), c.session("two")
		c.granted(one, request("a", 1))
		b := request("b", 1)
		c.finished(b, c.granted(two, b), jobs.Failed)
		c.note(one, noteOf(request("b", 2), jobs.Skipped, reasons.LockHeld))
		for _, f := range []struct {
			filter storage.RunFilter
			want   int
		}{
			{storage.RunFilter{Job: "a"}, 1}, {storage.RunFilter{Job: "b"}, 2},
			{storage.RunFilter{Job: "c"}, 0},
			{storage.RunFilter{States: []jobs.State{jobs.Failed}}, 1},
			{storage.RunFilter{States: []jobs.State{jobs.Failed, jobs.Running}}, 2},
			{storage.RunFilter{States: []jobs.State{jobs.Failed, jobs.Failed}}, 1},
			{storage.RunFilter{States: []jobs.State{jobs.Lost}}, 0},
			{storage.RunFilter{States: jobs.States()}, 3},
			{storage.RunFilter{Replica: "one"}, 2},
			{storage.RunFilter{Replica: "one", Job: "b"}, 1},
			{storage.RunFilter{Limit: 1}, 1}, {storage.RunFilter{}, 3},
			{storage.RunFilter{Job: "b", Replica: "two",
				States: []jobs.State{jobs.Failed, jobs.Skipped}}, 1},
		} {
			equal(c, fmt.Sprintf("runs by %+v", f.filter), len(c.runs(f.filter)), f.want)
		}
	}},
	{"pages contain each run once, in one order", func(c *check) {
		s := c.session("one")
		for n := range 3 { // 20 at a time, so many have the same creation time
			requests := make([]storage.StartRequest, 20)
			for i := range requests {
				requests[i] = request("a", 20*n+i)
			}
			c.start(s, requests...)
		}
		for _, f := range []storage.RunFilter{{}, {Job: "a"}, {States: []jobs.State{jobs.Running}},
			{States: []jobs.State{jobs.Waiting, jobs.Running}}} {
			whole := f
			whole.Limit = 100
			all := c.runs(whole)
			equal(c, "runs", len(all), 60)
			var paged []storage.Record
			f.Limit = 7
			for page := c.runs(f); len(page) > 0; page = c.runs(f) {
				paged = append(paged, page...)
				last := page[len(page)-1]
				f.Before = &storage.RunCursor{CreatedAt: last.CreatedAt, ID: last.ID}
			}
			same := func(a, b storage.Record) bool { return a.ID == b.ID }
			if !slices.EqualFunc(all, paged, same) {
				c.Errorf("%+v: %d runs in pages differ from %d at once", f, len(paged), len(all))
			}
		}
	}},
	{"a page has 100 runs by default and at most a batch", func(c *check) {
		s := c.session("one")
		for n := range 2 {
			requests := make([]storage.StartRequest, 600)
			for i := range requests {
				requests[i] = request("a", 600*n+i)
			}
			c.start(s, requests...)
		}
		equal(c, "runs", len(c.runs(storage.RunFilter{})), 100)
		equal(c, "runs", len(c.runs(storage.RunFilter{Limit: 5000})), storage.MaxBatch)
	}},
	{"jobs are listed by name with their last ended run", func(c *check) {
		s := c.session("one")
		c.register("h", "b", "a", "never")
		for n, state := range []jobs.State{jobs.Failed, jobs.Succeeded} {
			r := request("a", n)
			c.finished(r, c.granted(s, r), state)
		}
		c.granted(s, request("a", 3)) // still running
		skipped := noteOf(request("b", 1), jobs.Skipped, reasons.LockHeld)
		c.note(s, skipped)
		views, err := c.Store.Jobs(c.ctx)
		c.must(err)
		var names []string
		for _, v := range views {
			names = append(names, v.Name)
		}
		if strings.Join(names, " ") != "a b never" {
			c.Fatalf("jobs %v", names)
		}
		if a, b := views[0].Last, views[1].Last; a == nil || a.State != jobs.Succeeded ||
			b == nil || b.ID != skipped.Run || views[2].Last != nil {
			c.Errorf("last runs %+v, %+v, %+v", a, b, views[2].Last)
		}
	}},
	{"live and recently ended replicas are listed by name", func(c *check) {
		before := c.now()
		b, a := c.session("b"), c.session("a")
		c.granted(b, request("j", 1))
		c.granted(b, request("k", 1))
		c.must(c.Store.End(c.ctx, a))
		replicas, err := c.Store.Replicas(c.ctx)
		c.must(err)
		if len(replicas) != 2 || replicas[0].Session != a || replicas[1].Session != b {
			c.Fatalf("replicas %+v, want a and b", replicas)
		}
		equal(c, "name", replicas[1].Name, "b")
		equal(c, "version", replicas[1].Version, "v1")
		equal(c, "running", replicas[1].Running, 2)
		equal(c, "running", replicas[0].Running, 0)
		within(c, "started at", replicas[1].StartedAt, before, c.now())
		within(c, "last heartbeat", replicas[1].LastHeartbeat, before, c.now())
		within(c, "expires at", replicas[1].ExpiresAt, before.Add(ttl), c.now().Add(ttl))
		if replicas[0].EndedAt == nil || replicas[1].EndedAt != nil {
			c.Errorf("a ended at %v, b at %v", replicas[0].EndedAt, replicas[1].EndedAt)
		}
	}},
	{"a heartbeat lists the open sessions by name, without their runs", func(c *check) {
		b, a, ended := c.session("b"), c.session("a"), c.session("ended")
		c.granted(b, request("j", 1))
		c.must(c.Store.End(c.ctx, ended))
		heartbeat, err := c.Store.Heartbeat(c.ctx, b, storage.ReplicaStatus{Workers: 7})
		c.must(err)
		open := heartbeat.Open
		if len(open) != 2 || open[0].Session != a || open[1].Session != b {
			c.Fatalf("open sessions %+v, want a and b", open)
		}
		want := c.replica(b)
		equal(c, "running", want.Running, 1)
		want.Running = 0
		equal(c, "session", fmt.Sprintf("%+v", open[1]), fmt.Sprintf("%+v", want))
	}},
	{"an empty store has an empty history", func(c *check) {
		replicas, err := c.Store.Replicas(c.ctx)
		c.must(err)
		views, err := c.Store.Jobs(c.ctx)
		c.must(err)
		equal(c, "everything", len(replicas)+len(views)+len(c.locks())+len(
			c.runs(storage.RunFilter{})), 0)
	}},
	{"times are in UTC with microseconds", func(c *check) {
		c.pastRuns(1)
		r := c.runs(storage.RunFilter{})[0]
		now := c.now()
		for _, t := range []string{now.Location().String(), r.ScheduledAt.Location().String(),
			r.CreatedAt.Location().String(), r.StartedAt.Location().String()} {
			equal(c, "zone", t, "UTC")
		}
		equal(c, "nanoseconds of a microsecond", r.CreatedAt.Nanosecond()%1000, 0)
	}},
}

// pastRuns adds n succeeded runs of job a and returns their ids.
func (c *check) pastRuns(n int) []uuid.UUID {
	c.Helper()
	s := c.session("past")
	ids := make([]uuid.UUID, n)
	for i := range ids {
		r := request("a", i)
		ids[i] = r.Run
		_, err := c.Store.Finish(c.ctx,
			[]storage.FinishRequest{{Run: r.Run, Token: c.granted(s, r), State: jobs.Succeeded,
				Output: fmt.Sprint("output ", i)}})
		c.must(err)
	}
	return ids
}

func (c *check) runs(f storage.RunFilter) []storage.Record {
	c.Helper()
	records, err := c.Store.Runs(c.ctx, f)
	c.must(err)
	return records
}

func younger(a, b storage.Record) bool { return a.CreatedAt.After(b.CreatedAt) }

var firingRules = []rule{
	{"a firing has its job and all its runs, first run first", func(c *check) {
		c.recovering("a")
		s, dying := c.session("replica"), c.session("dying")
		lost := request("a", 1)
		c.granted(dying, lost)
		c.granted(s, request("a", 2))
		manual := request("a", 1)
		manual.Firing.Key = "k"
		c.start(s, manual)
		c.Expire(dying)
		c.sweep()
		before := c.now()
		v, err := c.Store.Firing(c.ctx, "a", lost.Firing.ScheduledAt)
		c.must(err)
		within(c, "now", v.Now, before, c.now())
		if len(v.Runs) != 2 || v.Runs[0].ID != lost.Run || v.Runs[0].State != jobs.Lost ||
			v.Runs[1].Recovery != 1 || v.Runs[1].State != jobs.Waiting {
			c.Errorf("runs %+v, want the lost one and its recovery", v.Runs)
		}
		if len(v.Manual) != 1 || v.Manual[0].ID != manual.Run {
			c.Errorf("manual runs %+v, want the one with a key", v.Manual)
		}
		c.same(v.Runs[0], c.record(lost.Run, jobs.Lost))
		job, in := c.job("a"), c.versions()["a"]
		if v.Version != 1 || v.Hash != job.Hash || v.Schedule != job.Schedule ||
			v.Zone != job.Zone || !v.UpdatedAt.Equal(job.UpdatedAt) ||
			!v.CheckedUntil.Equal(in.CheckedUntil) {
			c.Errorf("got %+v, want %+v with the cursor %s", v, job, in.CheckedUntil)
		}
	}},
	{"a firing of a scheduled time without runs has no runs", func(c *check) {
		c.register("h", "a")
		v, err := c.Store.Firing(c.ctx, "a", epoch)
		c.must(err)
		equal(c, "runs", len(v.Runs)+len(v.Manual), 0)
		equal(c, "version", v.Version, int64(1))
	}},
	{"a firing has the group of the active definition", func(c *check) {
		d := definition("a", "h")
		d.Group = "night"
		_, err := c.Store.Register(c.ctx, c.session("registrar"), []storage.Definition{d})
		c.must(err)
		v, err := c.Store.Firing(c.ctx, "a", epoch)
		c.must(err)
		equal(c, "group", v.Group, "night")
	}},
	{"the firing of an unknown job is not found", func(c *check) {
		c.granted(c.session("replica"), request("never registered", 1))
		for _, job := range []string{"nobody", "never registered"} {
			if _, err := c.Store.Firing(c.ctx, job, firing(job, 1).ScheduledAt); !errors.Is(err,
				storage.ErrNotFound) {
				c.Errorf("firing of %s: %v, want ErrNotFound", job, err)
			}
		}
	}},
}
