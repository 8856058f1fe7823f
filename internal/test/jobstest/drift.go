package jobstest

import (
	"reflect"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var driftRules = []rule{
	{"replicas with the same cron table do not drift", func(c *check) {
		c.registerAll(c.compared("a"), "h", "x", "y")
		c.registerAll(c.compared("b"), "h", "x", "y")
		c.drift()
	}},
	{"drift lists jobs that differ between replicas", func(c *check) {
		a, b := c.compared("a"), c.compared("b")
		c.registerAll(a, "h", "alone", "same", "x")
		c.registerAll(b, "h", "same")
		c.registerAll(b, "new", "x")
		c.registerAll(c.compared("c"), "h", "same", "x")
		want := []storage.JobDrift{
			{Job: "alone", Newest: []string{"a"}, Without: []string{"b", "c"}},
			{Job: "x", Newest: []string{"b"}, Older: []string{"a", "c"}},
		}
		c.drift(want...)
		found, err := c.Store.Drift(c.ctx, 1)
		c.must(err)
		if !reflect.DeepEqual(found, want[:1]) {
			c.Errorf("at most one: %+v", found)
		}
	}},
	{"ended sessions and sessions without a cron table do not drift", func(c *check) {
		c.registerAll(c.compared("a"), "h", "x")
		ended, expired := c.compared("b"), c.compared("c")
		c.registerAll(ended, "new", "x", "y")
		c.registerAll(expired, "new", "x", "z")
		c.registerAll(c.session("program"), "h", "other")
		c.must(c.Store.End(c.ctx, ended))
		c.Expire(expired)
		c.drift()
	}},
	{"jobs that were added at run time do not drift", func(c *check) {
		a := c.compared("a")
		c.registerAll(a, "h", "x")
		c.registerAll(c.compared("b"), "h", "x")
		_, err := c.Store.PutSpec(c.ctx, action,
			storage.Spec{Job: "added", Text: []byte(`{"name": "added"}`)})
		c.must(err)
		added := definition("added", "h")
		added.Source = storage.FromStore
		versions, err := c.Store.Register(c.ctx, a, []storage.Definition{added})
		c.must(err)
		equal(c, "version of the added job", versions["added"], 1)
		c.drift()
	}},
	{"the youngest live session of a replica is compared", func(c *check) {
		c.registerAll(c.compared("a"), "h", "x", "y")
		c.registerAll(c.compared("a"), "h", "x")
		c.registerAll(c.compared("b"), "h", "x")
		c.drift()
	}},
}

// compared opens a session of a replica whose cron table is compared.
func (c *check) compared(replica string) uuid.UUID {
	c.Helper()
	id := uuid.New()
	c.must(c.Store.Open(c.ctx, storage.Session{ID: id, Replica: replica, Version: "v1", TTL: ttl,
		Table: "5f3a"}))
	return id
}

// drift fails the test unless these jobs drift, and no others.
func (c *check) drift(want ...storage.JobDrift) {
	c.Helper()
	found, err := c.Store.Drift(c.ctx, 10)
	c.must(err)
	if !reflect.DeepEqual(found, want) {
		c.Errorf("got %+v, want %+v", found, want)
	}
}
