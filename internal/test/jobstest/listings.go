package jobstest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var listingRules = []rule{
	{"runs are filtered by reason, with and without states", func(c *check) {
		s := c.session("one")
		skipped, missed := noteOf(request("a", 11), jobs.Skipped, reasons.LockHeld),
			noteOf(request("a", 12), jobs.Skipped, reasons.Overlap)
		waits := request("b", 3, table("s/t"))
		c.note(s, skipped)
		c.note(s, missed)
		c.note(s, noteOf(waits, jobs.Waiting, reasons.LockHeld))
		c.pastRuns(2)
		for _, f := range []struct {
			filter storage.RunFilter
			want   []uuid.UUID
		}{
			{storage.RunFilter{Reason: reasons.LockHeld}, []uuid.UUID{skipped.Run, waits.Run}},
			{storage.RunFilter{Reason: reasons.Overlap}, []uuid.UUID{missed.Run}},
			{storage.RunFilter{Reason: reasons.Panic}, nil},
			{storage.RunFilter{Reason: reasons.LockHeld, States: []jobs.State{jobs.Skipped}},
				[]uuid.UUID{skipped.Run}},
			{storage.RunFilter{Reason: reasons.LockHeld, States: []jobs.State{jobs.Waiting}},
				[]uuid.UUID{waits.Run}},
			{storage.RunFilter{Reason: reasons.LockHeld,
				States: []jobs.State{jobs.Failed, jobs.Missed, jobs.Succeeded}}, nil},
			{storage.RunFilter{Reason: reasons.LockHeld, Job: "b"}, []uuid.UUID{waits.Run}},
		} {
			c.sameRuns(f.filter, f.want...)
		}
	}},
	{"runs are filtered by a text in their errors", func(c *check) {
		c.defined("h", map[string][]locking.Request{"a": {table("s/a")}, "b": {table("s/b")}})
		s := c.session("one")
		failed := func(job string, n int, state jobs.State, text string) uuid.UUID {
			r := request(job, n)
			done, err := c.Store.Finish(c.ctx, []storage.FinishRequest{{Run: r.Run,
				Token: c.granted(s, r), State: state, Error: text}})
			c.must(err)
			equal(c, "finished", len(done) == 1 && done[0], true)
			return r.Run
		}
		refused := failed("a", 11, jobs.Failed, "dial tcp 10.0.3.40:5432: Connection refused")
		late := failed("b", 12, jobs.TimedOut, "after 100%_of its timeout: connection refused")
		other := failed("a", 13, jobs.Failed, "100 rows of its table")
		c.pastRuns(2)
		to := table("s/b").Resource
		for _, f := range []struct {
			filter storage.RunFilter
			want   []uuid.UUID
		}{
			{storage.RunFilter{Error: "connection REFUSED"}, []uuid.UUID{refused, late}},
			{storage.RunFilter{Error: "connection refused", Limit: 1}, []uuid.UUID{late}},
			{storage.RunFilter{Error: "100%_"}, []uuid.UUID{late}},
			{storage.RunFilter{Error: "100"}, []uuid.UUID{late, other}},
			{storage.RunFilter{Error: "dial", Job: "b"}, nil},
			{storage.RunFilter{Error: "refused", JobPrefix: "a"}, []uuid.UUID{refused}},
			{storage.RunFilter{Error: "refused", Resource: &to}, []uuid.UUID{late}},
			{storage.RunFilter{Error: "refused", States: []jobs.State{jobs.TimedOut}},
				[]uuid.UUID{late}},
			{storage.RunFilter{Error: "refused", States: []jobs.State{jobs.Succeeded}}, nil},
			{storage.RunFilter{Error: "no such text"}, nil},
		} {
			c.sameRuns(f.filter, f.want...)
		}
	}},
	{"runs are filtered by creation time", func(c *check) {
		ids := c.pastRuns(6)
		at := make([]time.Time, len(ids))
		for i, id := range ids {
			at[i] = c.record(id, jobs.Succeeded).CreatedAt
		}
		c.sameRuns(storage.RunFilter{From: at[2]}, ids[2:]...)
		c.sameRuns(storage.RunFilter{Until: at[2]}, ids[:2]...)
		c.sameRuns(storage.RunFilter{From: at[1], Until: at[4], Job: "a"}, ids[1:4]...)
		c.sameRuns(storage.RunFilter{From: at[1], Until: at[4],
			States: []jobs.State{jobs.Succeeded}},
			ids[1:4]...)
		c.sameRuns(storage.RunFilter{From: at[5].Add(time.Microsecond)})
	}},
	{"runs are filtered by the resources of their jobs and related resources", func(c *check) {
		c.defined("h", map[string][]locking.Request{
			"orders": {table("s/orders"), ownName("orders")}, "schema": {table("s")},
			"part":  {shared("s/orders/2026")},
			"other": {table("s/others")}, "path": {path("s/orders")}, "api": {slot("api", 4)},
			"none": nil,
		})
		s := c.session("one")
		runs := make(map[string]uuid.UUID)
		for i, job := range []string{"orders", "schema", "part", "other", "path", "api", "none",
			"unknown"} {
			n := noteOf(request(job, i), jobs.Skipped, reasons.LockHeld)
			c.note(s, n)
			runs[job] = n.Run
		}
		waits := request("orders", 20, table("s/orders"))
		c.note(s, noteOf(waits, jobs.Waiting, reasons.LockHeld))
		resource := func(r locking.Request) *locking.Resource { return &r.Resource }
		c.sameRuns(storage.RunFilter{Resource: resource(table("s/orders"))}, runs["orders"],
			runs["schema"], runs["part"], waits.Run)
		c.sameRuns(storage.RunFilter{Resource: resource(table("s"))}, runs["orders"],
			runs["schema"],
			runs["part"], runs["other"], waits.Run)
		c.sameRuns(storage.RunFilter{Resource: resource(table("s/orders/2026"))}, runs["orders"],
			runs["schema"], runs["part"], waits.Run)
		c.sameRuns(storage.RunFilter{Resource: resource(slot("api", 4))}, runs["api"])
		c.sameRuns(storage.RunFilter{Resource: resource(table("s/orders_old"))}, runs["schema"])
		c.sameRuns(storage.RunFilter{Resource: resource(table("t"))})
		c.sameRuns(storage.RunFilter{Resource: resource(table("s/orders")),
			States: []jobs.State{jobs.Waiting}}, waits.Run)
		c.sameRuns(storage.RunFilter{Resource: resource(table("s/orders")),
			States: []jobs.State{jobs.Skipped, jobs.Waiting},
			Job:    "orders"}, runs["orders"], waits.Run)
		c.sameRuns(storage.RunFilter{Resource: resource(table("s")), Reason: reasons.LockHeld,
			States: []jobs.State{jobs.Skipped}},
			runs["orders"], runs["schema"], runs["part"], runs["other"])
		equal(c, "runs of a page",
			len(c.runs(storage.RunFilter{Resource: resource(table("s")), Limit: 2})), 2)
	}},
	{"runs are filtered by the group and by a prefix of their jobs", func(c *check) {
		c.inGroups(map[string]string{"etl/a": "night", "etl/b": "day", "etl%": "night",
			"etl": "night", "ETL/c": ""})
		s := c.session("one")
		runs := make(map[string]uuid.UUID)
		for i, job := range []string{"etl/a", "etl/b", "etl%", "etl", "ETL/c"} {
			n := noteOf(request(job, i), jobs.Skipped, reasons.LockHeld)
			c.note(s, n)
			runs[job] = n.Run
		}
		waits := request("etl/b", 20, table("s/t"))
		c.note(s, noteOf(waits, jobs.Waiting, reasons.LockHeld))
		skipped := []jobs.State{jobs.Skipped}
		c.sameRuns(storage.RunFilter{JobPrefix: "etl/"}, runs["etl/a"], runs["etl/b"], waits.Run)
		c.sameRuns(storage.RunFilter{JobPrefix: "etl/", States: skipped}, runs["etl/a"],
			runs["etl/b"])
		c.sameRuns(storage.RunFilter{JobPrefix: "etl"}, runs["etl/a"], runs["etl/b"],
			runs["etl%"], runs["etl"], waits.Run)
		c.sameRuns(storage.RunFilter{JobPrefix: "etl%"}, runs["etl%"])
		c.sameRuns(storage.RunFilter{JobPrefix: "etl_"})
		c.sameRuns(storage.RunFilter{JobPrefix: "tl"})
		c.sameRuns(storage.RunFilter{Group: "night"}, runs["etl/a"], runs["etl%"], runs["etl"])
		c.sameRuns(storage.RunFilter{Group: "nigh"})
		c.sameRuns(storage.RunFilter{Group: "day", States: []jobs.State{jobs.Waiting}}, waits.Run)
		c.sameRuns(storage.RunFilter{Group: "day", Reason: reasons.LockHeld}, runs["etl/b"],
			waits.Run)
		c.sameRuns(storage.RunFilter{Group: "night", JobPrefix: "etl/"}, runs["etl/a"])
		c.sameRuns(storage.RunFilter{Group: "night", Job: "etl"}, runs["etl"])
		c.sameRuns(storage.RunFilter{Group: "night", Job: "etl/b"})
		resource := table("s/t").Resource
		c.sameRuns(storage.RunFilter{Group: "night", Resource: &resource})
		equal(c, "runs of a page", len(c.runs(storage.RunFilter{JobPrefix: "etl", Limit: 2})), 2)
	}},
	{"pages of runs are the same backward and forward", func(c *check) {
		s := c.session("one")
		for n := range 3 { // many have the same creation time
			requests := make([]storage.StartRequest, 20)
			for i := range requests {
				requests[i] = request("a", 20*n+i)
			}
			c.start(s, requests...)
		}
		c.defined("h", map[string][]locking.Request{"a": {table("s/t")}})
		wanted := table("s/t").Resource
		for _, f := range []storage.RunFilter{{}, {Job: "a"},
			{States: []jobs.State{jobs.Running, jobs.Waiting}}, {Resource: &wanted},
			{JobPrefix: "a"}} {
			whole := f
			whole.Limit = 100
			all := c.runs(whole)
			equal(c, "runs", len(all), 60)
			var paged []storage.Record
			last := all[len(all)-1]
			f.Limit, f.After = 7, cursorOf(last)
			for page := c.runs(f); len(page) > 0; page = c.runs(f) {
				paged = slices.Concat(page, paged)
				f.After = cursorOf(page[0])
			}
			if !slices.EqualFunc(all[:len(all)-1], paged, func(a, b storage.Record) bool {
				return a.ID == b.ID
			}) {
				c.Errorf("%+v: %d runs in pages back differ from %d at once", f, len(paged),
					len(all)-1)
			}
			f.Before, f.After = cursorOf(all[3]), cursorOf(all[6])
			if between := c.runs(f); len(between) != 2 || between[0].ID != all[4].ID ||
				between[1].ID != all[5].ID {
				c.Errorf("between two runs are %+v", between)
			}
		}
	}},
	{"jobs are listed in pages by name, forward and backward", func(c *check) {
		names := make([]string, 25)
		for i := range names {
			names[i] = fmt.Sprintf("job/%02d", i)
		}
		c.register("h", names...)
		r := request(names[3], 1)
		c.finished(r, c.granted(c.session("one"), r), jobs.Failed)
		var forth, back []string
		for page := c.listed(storage.JobFilter{Limit: 10}); len(page) > 0; page =
			c.listed(storage.JobFilter{Limit: 10, After: forth[len(forth)-1]}) {
			forth = append(forth, page...)
		}
		if !slices.Equal(forth, names) {
			c.Errorf("pages on are %q", forth)
		}
		for page := c.listed(storage.JobFilter{Limit: 10, Before: "z"}); len(page) > 0; page =
			c.listed(storage.JobFilter{Limit: 10, Before: back[0]}) {
			back = slices.Concat(page, back)
		}
		if !slices.Equal(back, names) {
			c.Errorf("pages back are %q", back)
		}
		between := c.listed(storage.JobFilter{After: names[4], Before: names[8]})
		if !slices.Equal(between, names[5:8]) {
			c.Errorf("between two names are %q", between)
		}
		views, err := c.Store.ListJobs(c.ctx, storage.JobFilter{Text: "JOB/03"})
		c.must(err)
		if len(views) != 1 || views[0].Last == nil || views[0].Last.State != jobs.Failed ||
			views[0].Version != 1 {
			c.Errorf("views %+v, want one that failed last", views)
		}
	}},
	{"jobs are filtered by text and by state", func(c *check) {
		c.register("h", "rollup-sales", "rollup-stock", "prune")
		described := definition("export", "h")
		described.Description = "Sends the ROLLUP away"
		_, err := c.Store.Register(c.ctx, c.session("registrar"), []storage.Definition{described})
		c.must(err)
		s := c.session("one")
		failed, ended, runs := request("rollup-sales", 1), request("rollup-stock", 1),
			request("rollup-stock", 2)
		c.finished(failed, c.granted(s, failed), jobs.Failed)
		c.finished(ended, c.granted(s, ended), jobs.Succeeded)
		c.granted(s, runs)
		c.note(s, noteOf(request("prune", 1, table("s/t")), jobs.Waiting, reasons.LockHeld))
		for _, l := range []struct {
			filter storage.JobFilter
			want   string
		}{
			{storage.JobFilter{}, "export prune rollup-sales rollup-stock"},
			{storage.JobFilter{Text: "rollup"}, "export rollup-sales rollup-stock"},
			{storage.JobFilter{Text: "Sales"}, "rollup-sales"}, {storage.JobFilter{Text: "%"}, ""},
			{storage.JobFilter{Text: "_"}, ""},
			{storage.JobFilter{State: jobs.Failed}, "rollup-sales"},
			{storage.JobFilter{State: jobs.Succeeded}, "rollup-stock"},
			{storage.JobFilter{State: jobs.Running}, "rollup-stock"},
			{storage.JobFilter{State: jobs.Waiting}, "prune"},
			{storage.JobFilter{State: jobs.Lost}, ""},
			{storage.JobFilter{State: jobs.Failed, Text: "stock"}, ""},
			{storage.JobFilter{Limit: 2}, "export prune"},
			{storage.JobFilter{Names: []string{"prune", "nobody", "export"}}, "export prune"},
			{storage.JobFilter{Names: []string{"prune", "export"}, State: jobs.Waiting}, "prune"},
			{storage.JobFilter{Names: []string{}}, ""},
		} {
			equal(c, fmt.Sprintf("jobs by %+v", l.filter), strings.Join(c.listed(l.filter), " "),
				l.want)
		}
		equal(c, "states", c.jobStates(), "export, prune waiting, rollup-sales failed, "+
			"rollup-stock running succeeded")
	}},
	{"jobs are filtered by group, source and pauses", func(c *check) {
		var definitions []storage.Definition
		for name, group := range map[string]string{"a": "night", "b": "night", "c": "day",
			"d": ""} {
			d := definition(name, "h")
			d.Group, d.Source, d.Priority = group, storage.FromConfig, 7
			definitions = append(definitions, d)
		}
		_, err := c.Store.Register(c.ctx, c.session("registrar"), definitions)
		c.must(err)
		action := storage.Action{Actor: "anna", Via: "go", Reason: "closing"}
		pause := func(target storage.Target) {
			_, err := c.Store.Pause(c.ctx, action, target)
			c.must(err)
		}
		yes, no := true, false
		lists := func(f storage.JobFilter, want string) {
			c.Helper()
			equal(c, fmt.Sprintf("jobs by %+v", f), strings.Join(c.listed(f), " "), want)
		}
		lists(storage.JobFilter{Group: "night"}, "a b")
		lists(storage.JobFilter{Group: "dusk"}, "")
		lists(storage.JobFilter{Ungrouped: true}, "d")
		lists(storage.JobFilter{Ungrouped: true, After: "d"}, "")
		equal(c, "states", c.jobStates(), "a of night, b of night, c of day, d")
		lists(storage.JobFilter{Source: storage.FromConfig}, "a b c d")
		lists(storage.JobFilter{Source: storage.FromStore}, "")
		lists(storage.JobFilter{Paused: &yes}, "")
		pause(storage.Target{Kind: storage.TargetGroup, Name: "night"})
		pause(storage.Target{Kind: storage.TargetJob, Name: "d"})
		lists(storage.JobFilter{Paused: &yes}, "a b d")
		lists(storage.JobFilter{Paused: &no}, "c")
		lists(storage.JobFilter{Paused: &yes, Group: "night", After: "a"}, "b")
		equal(c, "states", c.jobStates(),
			"a of night paused, b of night paused, c of day, d paused")
		view, err := c.Store.Job(c.ctx, "a")
		c.must(err)
		if len(view.Pauses) != 1 || view.Pauses[0].By != "anna" ||
			view.Pauses[0].Reason != "closing" || view.Group != "night" || view.Priority != 7 {
			c.Errorf("job %+v, want it to be paused with its group", view)
		}
		pause(storage.Target{Kind: storage.TargetAll})
		lists(storage.JobFilter{Paused: &yes}, "a b c d")
		equal(c, "states", c.jobStates(),
			"a of night paused, b of night paused, c of day paused, d paused")
		_, err = c.Store.Resume(c.ctx, action, storage.Target{Kind: storage.TargetAll})
		c.must(err)
		lists(storage.JobFilter{Paused: &no}, "c")
		groups, err := c.Store.Groups(c.ctx)
		c.must(err)
		equal(c, "groups", fmt.Sprint(groups), "[{day 1} {night 2}]")
	}},
	{"a job is found by its name with any characters", func(c *check) {
		c.register("h", "a", "a/b", `a'";--`)
		for _, name := range []string{"a", "a/b", `a'";--`} {
			view, err := c.Store.Job(c.ctx, name)
			c.must(err)
			equal(c, "name", view.Name, name)
			equal(c, "schedule", view.Schedule, definition(name, "h").Schedule)
		}
		if _, err := c.Store.Job(c.ctx, "b"); !errors.Is(err, storage.ErrNotFound) {
			c.Errorf("unknown job: %v, want ErrNotFound", err)
		}
	}},
	{"resources of the active definitions are listed once each", func(c *check) {
		one := c.session("one")
		c.definedBy(one, "old", map[string][]locking.Request{"a": {table("s/old")},
			"b": {table("s/t"), ownName("b")}})
		c.defined("new", map[string][]locking.Request{"a": {shared("s/t"), slot("api", 2)}})
		resources, err := c.Store.Resources(c.ctx)
		c.must(err)
		var keys []string
		for _, r := range resources {
			keys = append(keys, r.Key())
		}
		equal(c, "resources", strings.Join(keys, " "), "slot:api table:s/t")
	}},
	{"the last outcomes of jobs are listed youngest first", func(c *check) {
		s := c.session("one")
		for i := range 5 {
			r := request("a", i)
			c.finished(r, c.granted(s, r), []jobs.State{jobs.Failed, jobs.Succeeded}[i%2])
		}
		skipped := noteOf(request("b", 1), jobs.Skipped, reasons.LockHeld)
		c.note(s, skipped)
		c.granted(s, request("other", 1))
		found, err := c.Store.Outcomes(c.ctx, []string{"b", "a", "never"}, 3)
		c.must(err)
		if len(found) != 2 || len(found["a"]) != 3 || len(found["b"]) != 1 {
			c.Fatalf("outcomes %+v", found)
		}
		for i, o := range found["a"] {
			equal(c, "scheduled_at", o.ScheduledAt, firing("a", 4-i).ScheduledAt)
			equal(c, "state", o.State, []jobs.State{jobs.Failed, jobs.Succeeded}[i%2])
			if took, ran := o.Took(); !ran || took < 0 {
				c.Errorf("%+v took %s, %t", o, took, ran)
			}
		}
		b := found["b"][0]
		if _, ran := b.Took(); ran || b.Run != skipped.Run || b.State != jobs.Skipped ||
			b.Reason != reasons.LockHeld {
			c.Errorf("outcome %+v, want what was skipped", b)
		}
		none, err := c.Store.Outcomes(c.ctx, nil, 3)
		c.must(err)
		equal(c, "outcomes of no jobs", len(none), 0)
	}},
	{"the last outcomes of jobs leave out runs of backfills", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		r := request("a", 0)
		c.finished(r, c.granted(s, r), jobs.Failed)
		b := c.backfill(c.pastHours(2), 1)
		for range b.times {
			c.advance(b)
			past := c.waitingOf(s)[0]
			c.finished(past, c.granted(s, past), jobs.Succeeded)
		}
		found, err := c.Store.Outcomes(c.ctx, []string{"a"}, 1)
		c.must(err)
		if len(found["a"]) != 1 || found["a"][0].Run != r.Run {
			c.Errorf("outcomes %+v, want the failed run %s", found["a"], r.Run)
		}
	}},
	{"failed and skipped runs are counted by job, state and reason", func(c *check) {
		s := c.session("one")
		for i := range 3 {
			c.note(s, noteOf(request("a", i), jobs.Skipped, reasons.LockHeld))
		}
		since := c.now()
		c.note(s, noteOf(request("a", 3), jobs.Skipped, reasons.LockHeld))
		c.note(s, noteOf(request("a", 4), jobs.Skipped, reasons.Overlap))
		c.note(s, noteOf(request("b", 5, table("s/t")), jobs.Waiting, reasons.LockHeld))
		for i, state := range []jobs.State{jobs.Failed, jobs.Failed, jobs.Succeeded} {
			r := request("b", i)
			c.finished(r, c.granted(s, r), state)
		}
		equal(c, "since then", c.endCounts(c.Store.EndCounts(c.ctx, since)),
			"a skipped lock_held 1, a skipped overlap 1, b failed  2")
		equal(c, "in all", c.endCounts(c.Store.EndCounts(c.ctx, since.Add(-time.Hour))),
			"a skipped lock_held 4, a skipped overlap 1, b failed  2")
		equal(c, "of one job", c.endCounts(c.Store.JobEndCounts(c.ctx, "b", since)),
			"b failed  2, b succeeded  1")
		equal(c, "of one job, in all",
			c.endCounts(c.Store.JobEndCounts(c.ctx, "a", since.Add(-time.Hour))),
			"a skipped lock_held 4, a skipped overlap 1")
		equal(c, "of the future", c.endCounts(c.Store.EndCounts(c.ctx, c.now().Add(time.Hour))), "")
		equal(c, "of another job", c.endCounts(c.Store.JobEndCounts(c.ctx, "c", since)), "")
		endCounts, err := c.Store.JobEndCounts(c.ctx, "b", since)
		c.must(err)
		for _, t := range endCounts {
			within(c, "the last", t.Last, since, c.now())
		}
	}},
	{"jobs are listed by the ends of their runs", func(c *check) {
		s := c.session("one")
		began := c.now()
		for i, job := range []string{"a", "b", "b", "c", "d"} {
			state := []jobs.State{jobs.Failed, jobs.TimedOut, jobs.Succeeded, jobs.Failed,
				jobs.Succeeded}[i]
			r := request(job, i)
			c.finished(r, c.granted(s, r), state)
		}
		c.granted(s, request("e", 5)) // is running
		c.note(s, noteOf(request("f", 6), jobs.Skipped, reasons.LockHeld))
		failed := c.runs(storage.RunFilter{States: []jobs.State{jobs.Failed}}) // c, then a
		end := c.now().Add(time.Second)
		listed := func(from, until time.Time, most int, states ...jobs.State) string {
			found, err := c.Store.EndedJobs(c.ctx, storage.EndedJobsFilter{From: from, Until: until,
				States: states, Most: most})
			c.must(err)
			return fmt.Sprint(slices.Sorted(maps.Keys(found.Names)), " ", found.More)
		}
		equal(c, "failed", listed(began, end, 2, jobs.Failed), "[a c] false")
		equal(c, "failed or timed out", listed(began, end, 2, jobs.Failed, jobs.TimedOut),
			"[a b c] false")
		equal(c, "skipped", listed(began, end, 2, jobs.Skipped, jobs.Missed), "[f] false")
		equal(c, "lost", listed(began, end, 2, jobs.Lost), "[] false")
		equal(c, "bounded", listed(began, end, 1, jobs.Failed), "[a c] true")
		equal(c, "bounded more", listed(began, end, 0, jobs.Failed, jobs.TimedOut), "[b c] true")
		equal(c, "before the last", listed(began, failed[0].CreatedAt, 2, jobs.Failed), "[a] false")
		equal(c, "from the last", listed(failed[0].CreatedAt, end, 2, jobs.Failed), "[c] false")
	}},
	{"runs are counted by job and part of a time", func(c *check) {
		s := c.session("one")
		began := c.now()
		for i, state := range []jobs.State{jobs.Failed, jobs.Succeeded, jobs.Failed,
			jobs.TimedOut} {
			r := request("a", i)
			c.finished(r, c.granted(s, r), state)
		}
		c.granted(s, request("a", 4)) // is running
		c.note(s, noteOf(request("b", 5), jobs.Skipped, reasons.LockHeld))
		all := c.runs(storage.RunFilter{Job: "a"}) // the youngest first
		slices.Reverse(all)
		end := c.now().Add(time.Second)
		counted := func(most int, parts ...storage.JobPart) string {
			counts, err := c.Store.CountRuns(c.ctx, parts, most)
			c.must(err)
			var lines []string
			for i, n := range counts {
				for state, last := range n.Last {
					if !slices.ContainsFunc(c.runs(storage.RunFilter{Job: parts[i].Job}),
						func(r storage.Record) bool {
							return r.State == state && r.ScheduledAt.Equal(last)
						}) {
						c.Errorf("no run of %s is %s at %s", parts[i].Job, state, last)
					}
				}
				more := ""
				if n.More {
					more = "+"
				}
				lines = append(lines, fmt.Sprintf("%d%s %v", n.Runs, more, n.Unsuccessful))
			}
			return strings.Join(lines, ", ")
		}
		a := storage.JobPart{Job: "a", From: began, Until: end}
		b := storage.JobPart{Job: "b", From: began, Until: end}
		none := storage.JobPart{Job: "none", From: began, Until: end}
		later := storage.JobPart{Job: "a", From: end, Until: end.Add(time.Hour)}
		equal(c, "all", counted(100, a, b, none, later),
			"5 map[failed:2 timed_out:1], 1 map[skipped:1], 0 map[], 0 map[]")
		first := storage.JobPart{Job: "a", From: began, Until: all[2].CreatedAt}
		rest := storage.JobPart{Job: "a", From: all[2].CreatedAt, Until: all[4].CreatedAt}
		equal(c, "parts", counted(100, rest, first),
			"2 map[failed:1 timed_out:1], 2 map[failed:1]")
		equal(c, "exactly as many", counted(5, a), "5 map[failed:2 timed_out:1]")
		equal(c, "at most 4", counted(4, a, b), "4+ map[failed:2 timed_out:1], 1 map[skipped:1]")
		counts, err := c.Store.CountRuns(c.ctx, []storage.JobPart{a}, 1)
		c.must(err)
		equal(c, "at most 1", counts[0].More && counts[0].Runs == 1, true)
		equal(c, "the youngest of at most 1", counts[0].Unsuccessful[jobs.TimedOut], 1)
		equal(c, "of nothing", counted(5), "")
	}},
	{"runs of a filter are counted", func(c *check) {
		c.inGroups(map[string]string{"a": "group", "b": "group"})
		s := c.session("one")
		began := c.now()
		for i, state := range []jobs.State{jobs.Failed, jobs.Succeeded, jobs.Failed,
			jobs.TimedOut} {
			r := request("a", i, table("s/t"))
			c.finished(r, c.granted(s, r), state)
		}
		c.granted(s, request("a", 4)) // is running
		c.note(s, noteOf(request("b", 5), jobs.Skipped, reasons.LockHeld))
		other := c.session("two")
		r := request("b", 6)
		c.finished(r, c.granted(other, r), jobs.Failed)
		counted := func(f storage.RunFilter, most int) string {
			n, err := c.Store.CountFiltered(c.ctx, f, most)
			c.must(err)
			more := ""
			if n.More {
				more = "+"
			}
			if n.MoreUnsuccessful {
				return fmt.Sprintf("%d%s %v+", n.Runs, more, n.Unsuccessful)
			}
			return fmt.Sprintf("%d%s %v", n.Runs, more, n.Unsuccessful)
		}
		all := storage.RunFilter{}
		equal(c, "all", counted(all, 100), "7 map[failed:3 skipped:1 timed_out:1]")
		equal(c, "exactly as many", counted(all, 7), "7 map[failed:3 skipped:1 timed_out:1]")
		equal(c, "at most", counted(all, 3), "3+ map[failed:3 skipped:1 timed_out:1]")
		ofA := storage.RunFilter{Job: "a", States: []jobs.State{jobs.Succeeded}, Limit: 1}
		equal(c, "of a job", counted(ofA, 100), "5 map[failed:2 timed_out:1]")
		equal(c, "of a job, at most", counted(ofA, 2)[:2], "2+")
		equal(c, "of a prefix", counted(storage.RunFilter{JobPrefix: "b"}, 100),
			"2 map[failed:1 skipped:1]")
		equal(c, "of a replica", counted(storage.RunFilter{Replica: "two"}, 100), "1 map[failed:1]")
		equal(c, "of a job and a replica",
			counted(storage.RunFilter{Job: "b", Replica: "one"}, 100), "1 map[skipped:1]")
		equal(c, "of a reason", counted(storage.RunFilter{Reason: reasons.LockHeld}, 100),
			"1 map[skipped:1]")
		equal(c, "of a job and a reason",
			counted(storage.RunFilter{Job: "a", Reason: reasons.LockHeld}, 100), "0 map[]")
		equal(c, "of a time", counted(storage.RunFilter{From: began,
			Until: c.now().Add(time.Second)}, 100), "7 map[failed:3 skipped:1 timed_out:1]")
		equal(c, "of another time", counted(storage.RunFilter{Until: began}, 100), "0 map[]")
		equal(c, "of a group", counted(storage.RunFilter{Group: "group"}, 100),
			"7 map[failed:3 skipped:1 timed_out:1]")
		equal(c, "of another group", counted(storage.RunFilter{Group: "x"}, 100), "0 map[]")
		equal(c, "of a job in another group",
			counted(storage.RunFilter{Group: "x", Job: "a"}, 100), "0 map[]")
		equal(c, "of a job in its group",
			counted(storage.RunFilter{Group: "group", Job: "b"}, 100), "2 map[failed:1 skipped:1]")
		equal(c, "of an error", counted(storage.RunFilter{Error: "no such error"}, 100), "0 map[]")
		// Each combination of these has the runs that are listed with it.
		narrow := []func(f *storage.RunFilter){
			func(f *storage.RunFilter) { f.Job = "b" },
			func(f *storage.RunFilter) { f.JobPrefix = "a" },
			func(f *storage.RunFilter) { f.Replica = "one" },
			func(f *storage.RunFilter) { f.Reason = reasons.LockHeld },
			func(f *storage.RunFilter) { f.From = began },
			func(f *storage.RunFilter) { f.Until = c.now().Add(time.Second) },
			func(f *storage.RunFilter) { f.Group = "group" },
			func(f *storage.RunFilter) { f.Backfill = uuid.New() },
		}
		for chosen := range 1 << len(narrow) {
			var f storage.RunFilter
			for i, part := range narrow {
				if chosen>>i&1 == 1 {
					part(&f)
				}
			}
			listed := c.runs(f)
			unsuccessful := map[jobs.State]int{}
			for _, r := range listed {
				if r.State.Final() && r.State != jobs.Succeeded {
					unsuccessful[r.State]++
				}
			}
			equal(c, fmt.Sprintf("filter %+v", f), counted(f, 100),
				fmt.Sprintf("%d %v", len(listed), unsuccessful))
		}
		equal(c, "of a backfill", counted(storage.RunFilter{Backfill: uuid.New()}, 100), "0 map[]")
	}},
	{"runs of a firing are listed in the order of its recoveries", func(c *check) {
		c.recovering("a")
		one := c.session("one")
		r := request("a", 1)
		c.granted(one, r)
		c.granted(one, request("a", 2))
		c.Expire(one)
		c.sweep()
		chain, err := c.Store.FiringRuns(c.ctx, r.Firing)
		c.must(err)
		if len(chain) != 2 || chain[0].ID != r.Run || chain[0].State != jobs.Lost ||
			chain[1].Recovery != 1 || chain[1].State != jobs.Waiting {
			c.Errorf("runs of the firing are %+v", chain)
		}
		triggered := r.Firing
		triggered.Key = "by hand"
		none, err := c.Store.FiringRuns(c.ctx, triggered)
		c.must(err)
		equal(c, "runs of a trigger that was not", len(none), 0)
		record, err := c.Store.Trigger(c.ctx, storage.Action{Actor: "anna", Via: "go"},
			storage.TriggerRequest{Job: "a", Key: "by hand"})
		c.must(err)
		if found, err := c.Store.FiringRuns(c.ctx, triggered); err != nil || len(found) != 1 ||
			found[0].ID != record.ID {
			c.Errorf("runs of a trigger are %+v, %v", found, err)
		}
	}},
	{"runs are listed by a range of ids", func(c *check) {
		c.register("a")
		one := c.session("one")
		var ids []uuid.UUID
		for i := range 4 {
			r := request("a", i+1)
			c.finished(r, c.granted(one, r), jobs.Succeeded)
			ids = append(ids, r.Run)
		}
		slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		listed := func(first, last uuid.UUID, limit int) (found []uuid.UUID) {
			records, err := c.Store.RunsBetween(c.ctx, first, last, limit)
			c.must(err)
			for _, r := range records {
				found = append(found, r.ID)
			}
			return found
		}
		equal(c, "all", fmt.Sprint(listed(uuid.Nil, uuid.Max, storage.MaxBatch)), fmt.Sprint(ids))
		equal(c, "the first two", fmt.Sprint(listed(uuid.Nil, uuid.Max, 2)), fmt.Sprint(ids[:2]))
		equal(c, "a part with its ends", fmt.Sprint(listed(ids[1], ids[2], 10)),
			fmt.Sprint(ids[1:3]))
		equal(c, "one", fmt.Sprint(listed(ids[3], ids[3], 10)), fmt.Sprint(ids[3:]))
		equal(c, "none", len(listed(uuid.Max, uuid.Nil, 10)), 0)
	}},
}

func cursorOf(r storage.Record) *storage.RunCursor {
	return &storage.RunCursor{CreatedAt: r.CreatedAt, ID: r.ID}
}

// sameRuns fails the test unless the filter returns these runs, in any order.
func (c *check) sameRuns(f storage.RunFilter, want ...uuid.UUID) {
	c.Helper()
	var got, expected []string
	for _, r := range c.runs(f) {
		got = append(got, r.ID.String())
	}
	for _, id := range want {
		expected = append(expected, id.String())
	}
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		c.Errorf("runs by %+v are %q, want %q", f, got, expected)
	}
}

// listed returns the names of the jobs on a page.
func (c *check) listed(f storage.JobFilter) (names []string) {
	c.Helper()
	views, err := c.Store.ListJobs(c.ctx, f)
	c.must(err)
	for _, v := range views {
		names = append(names, v.Name)
	}
	return names
}

// jobStates formats the states of all jobs.
func (c *check) jobStates() string {
	c.Helper()
	states, err := c.Store.JobStates(c.ctx)
	c.must(err)
	var lines []string
	for _, j := range states {
		line := []string{j.Job}
		for _, part := range []struct {
			is   bool
			text string
		}{{j.Group != "", "of " + j.Group}, {j.Paused, "paused"}, {j.Waiting, "waiting"},
			{j.Running, "running"}, {j.Last != "", string(j.Last)}} {
			if part.is {
				line = append(line, part.text)
			}
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return strings.Join(lines, ", ")
}

// tallied formats counts in a fixed order.
func (c *check) endCounts(endCounts []storage.EndCount, err error) string {
	c.Helper()
	c.must(err)
	var lines []string
	for _, t := range endCounts {
		lines = append(lines, fmt.Sprintf("%s %s %s %d", t.Job, t.State, t.Reason, t.Runs))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// inGroups gives jobs with groups to a session that stays live.
func (c *check) inGroups(groups map[string]string) {
	c.Helper()
	var definitions []storage.Definition
	for name, group := range groups {
		d := definition(name, "h")
		d.Group = group
		definitions = append(definitions, d)
	}
	_, err := c.Store.Register(c.ctx, c.session("registrar"), definitions)
	c.must(err)
}

// defined gives jobs that lock the requests to a session that stays live.
func (c *check) defined(hash string, requests map[string][]locking.Request) {
	c.Helper()
	c.definedBy(c.session("registrar"), hash, requests)
}

func (c *check) definedBy(session uuid.UUID, hash string, requests map[string][]locking.Request) {
	c.Helper()
	var definitions []storage.Definition
	for name, wanted := range requests {
		d := definition(name, hash)
		d.Resources = wanted
		definitions = append(definitions, d)
	}
	_, err := c.Store.Register(c.ctx, session, definitions)
	c.must(err)
}
