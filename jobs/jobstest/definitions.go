package jobstest

import (
	"maps"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

var definitionRules = []rule{
	{"a new definition has a version", func(c *check) {
		versions := c.register("h1", "a", "b")
		if versions["a"] < 1 || versions["b"] < 1 {
			c.Fatalf("versions %v, expected each from 1", versions)
		}
	}},
	{"the same hash keeps its version", func(c *check) {
		first := c.register("h1", "a", "b")
		if again := c.register("h1", "a", "b"); !maps.Equal(first, again) {
			c.Errorf("versions %v, then %v", first, again)
		}
	}},
	{"a changed hash gets the next version", func(c *check) {
		first := c.register("h1", "a", "b")
		changed := c.register("h2", "a")
		equal(c, "version of the changed job", changed["a"], first["a"]+1)
		back := c.register("h1", "a")
		equal(c, "version of the job changed back", back["a"], first["a"]+2)
	}},
	{"jobs that are not named stay", func(c *check) {
		first := c.register("h1", "a", "b")
		c.register("h1", "c")
		versions, err := c.Store.Versions(c.ctx)
		c.must(err)
		equal(c, "jobs", len(versions), 3)
		equal(c, "version of a job that was not named", versions["b"], first["b"])
	}},
	{"an empty store has no versions", func(c *check) {
		versions, err := c.Store.Versions(c.ctx)
		c.must(err)
		equal(c, "jobs", len(versions), 0)
	}},
	{"a definition comes back as it was written", func(c *check) {
		want := jobs.Definition{
			Name: "päivä/\"x\"", Hash: "h", Schedule: "0 0 12 L * ?", Zone: "Europe/Berlin", Handler: "sql",
			Resources:   []locking.Request{table("public/orders"), shared("public/sales"), slot("vendor", 5), path("a/b c")},
			Description: `{"k": "<é>"}`,
		}
		before := c.now()
		_, err := c.Store.Register(c.ctx, []jobs.Definition{want})
		c.must(err)
		views, err := c.Store.Jobs(c.ctx)
		c.must(err)
		if len(views) != 1 {
			c.Fatalf("%d jobs, expected 1", len(views))
		}
		if diff := cmp.Diff(want, views[0].Definition, cmp.AllowUnexported(locking.Resource{})); diff != "" {
			c.Errorf("definition (-written +read):\n%s", diff)
		}
		within(c, "updated at", views[0].UpdatedAt, before, c.now())
		if views[0].Last != nil {
			c.Errorf("last run %+v of a job that never ran", views[0].Last)
		}
	}},
	{"a change shows the new definition", func(c *check) {
		c.register("h1", "a")
		_, err := c.Store.Register(c.ctx, []jobs.Definition{{Name: "a", Hash: "h2", Schedule: "@daily", Zone: "UTC", Handler: "http", Description: "{}"}})
		c.must(err)
		views, err := c.Store.Jobs(c.ctx)
		c.must(err)
		if len(views) != 1 || views[0].Schedule != "@daily" || views[0].Handler != "http" || views[0].Version != 2 {
			c.Errorf("jobs %+v, expected the second definition as version 2", views)
		}
	}},
	{"a start of an older definition is stale", func(c *check) {
		s := c.session("one")
		old := c.register("h1", "a")["a"]
		r := request("a", 1, table("s/a"))
		r.Version = old
		c.register("h2", "a")
		c.outcome(s, r, jobs.StartStale)
		equal(c, "locks", len(c.locks()), 0)
		r.Version = old + 1
		c.granted(s, r)
	}},
	{"a stale start leaves the firing to the newer definition", func(c *check) {
		s := c.session("one")
		old := request("a", 1)
		old.Version = c.register("h1", "a")["a"]
		current := request("a", 1)
		current.Version = c.register("h2", "a")["a"]
		c.outcome(s, old, jobs.StartStale)
		c.granted(s, current)
	}},
	{"a note of an older definition does not stand", func(c *check) {
		s := c.session("one")
		old := request("a", 1)
		old.Version = c.register("h1", "a")["a"]
		current := request("a", 1)
		current.Version = c.register("h2", "a")["a"]
		equal(c, "note of the old definition", c.note(s, noteOf(old, jobs.Skipped, jobs.ReasonLockHeld)), false)
		c.granted(s, current)
	}},
	{"a grant is not undone by a newer definition", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		r.Version = c.register("h1", "a")["a"]
		token := c.granted(s, r)
		c.register("h2", "a")
		equal(c, "token of the resent request", c.granted(s, r), token)
	}},
	{"version 0 is not checked", func(c *check) {
		s := c.session("one")
		c.register("h1", "a")
		c.register("h2", "a")
		c.granted(s, request("a", 1))
	}},
}
