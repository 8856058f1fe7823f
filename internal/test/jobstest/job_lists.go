package jobstest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// jobListRules are about lists of jobs, groups and resources.
var jobListRules = []rule{
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
		found, err := c.Store.Outcomes(c.ctx, storage.AllOutcomesOf([]string{"b", "a", "never"}), 3)
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
		newer, err := c.Store.Outcomes(c.ctx, []storage.OutcomesOf{
			{Job: "a", After: found["a"][1].CreatedAt}, {Job: "b", After: b.CreatedAt}}, 3)
		c.must(err)
		if len(newer) != 1 || len(newer["a"]) != 1 || newer["a"][0].Run != found["a"][0].Run {
			c.Errorf("outcomes after a time %+v", newer)
		}
		none, err := c.Store.Outcomes(c.ctx, nil, 3)
		c.must(err)
		equal(c, "outcomes of no jobs", len(none), 0)
	}},
	{"failures in a row are counted back to the last success", func(c *check) {
		s := c.session("one")
		var ended []storage.Record
		for i, state := range []jobs.State{jobs.Failed, jobs.Succeeded, jobs.Failed, jobs.Cancelled,
			jobs.TimedOut, jobs.Failed} {
			r := request("a", i)
			c.finished(r, c.granted(s, r), state)
			ended = append(ended, c.record(r.Run, state))
		}
		request := request("b", 0)
		c.finished(request, c.granted(s, request), jobs.Failed)
		other := c.record(request.Run, jobs.Failed)
		before := func(r storage.Record) storage.RunBefore {
			return storage.RunBefore{Job: r.Job, Before: storage.RunCursor{CreatedAt: r.CreatedAt,
				ID: r.ID}}
		}
		for i, want := range []storage.FailedRuns{{}, {Number: 1, Since: *ended[0].FinishedAt}, {},
			{Number: 1, Since: *ended[2].FinishedAt}, {Number: 1, Since: *ended[2].FinishedAt},
			{Number: 2, Since: *ended[2].FinishedAt}} {
			found, err := c.Store.FailuresBefore(c.ctx,
				[]storage.RunBefore{before(ended[i]), before(other)})
			c.must(err)
			equal(c, fmt.Sprintf("failures before run %d", i), found["a"], want)
			equal(c, "failures of the other job", found["b"], storage.FailedRuns{})
		}
		none, err := c.Store.FailuresBefore(c.ctx, nil)
		c.must(err)
		equal(c, "failures of no jobs", len(none), 0)
	}},
	{"a run for a later time does not count as waiting", func(c *check) {
		c.register("h", "a", "b")
		c.asked(storage.TriggerRequest{Job: "a", Key: "k", Delay: time.Hour})
		c.asked(storage.TriggerRequest{Job: "b", Key: "k"})
		equal(c, "states", c.jobStates(), "a, b waiting")
		equal(c, "jobs", strings.Join(c.listed(storage.JobFilter{State: jobs.Waiting}), " "), "b")
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
		found, err := c.Store.Outcomes(c.ctx, storage.AllOutcomesOf([]string{"a"}), 1)
		c.must(err)
		if len(found["a"]) != 1 || found["a"][0].Run != r.Run {
			c.Errorf("outcomes %+v, want the failed run %s", found["a"], r.Run)
		}
	}},
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
	versions, err := c.Store.Versions(c.ctx)
	c.must(err)
	for _, j := range states {
		d := definition(j.Job, "")
		if j.Schedule != d.Schedule || j.Zone != d.Zone || j.Handler != d.Handler ||
			!j.CheckedUntil.Equal(versions[j.Job].CheckedUntil) || j.CheckedUntil.IsZero() {
			c.Errorf("state %+v, want schedule, zone, handler and cursor of %+v", j, d)
		}
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
