package jobstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// put adds the job, or changes it.
func (c *check) put(job string, version int64) storage.Spec {
	c.Helper()
	s, err := c.Store.PutSpec(c.ctx, action,
		storage.Spec{Job: job, Text: json.RawMessage(fmt.Sprintf(`{"seen": %d}`, version)),
			Version: version})
	c.must(err)
	return s
}

// registerAdded registers a definition of an added job for the session.
func (c *check) registerAdded(session uuid.UUID, hash, job string) int64 {
	c.Helper()
	d := definition(job, hash)
	d.Source = storage.FromStore
	versions, err := c.Store.Register(c.ctx, session, []storage.Definition{d})
	c.must(err)
	return versions[job]
}

var specRules = []rule{
	{"a check gets the added jobs, and its error ends the action", func(c *check) {
		first := c.put("first", 0)
		refusal := errors.New("not beside those")
		var seen []string
		refuse := func(added []storage.Spec) error {
			for _, s := range added {
				seen = append(seen, fmt.Sprint(s.Job, " ", s.Version))
			}
			return refusal
		}
		_, err := c.Store.PutSpec(c.ctx, action,
			storage.Spec{Job: "second", Text: json.RawMessage(`{}`)}, refuse)
		c.refused("an addition that a check refuses", err, refusal)
		c.refused("a removal that a check refuses",
			c.Store.RemoveSpec(c.ctx, action, "first", first.Version, refuse), refusal)
		equal(c, "seen", strings.Join(seen, ", "),
			fmt.Sprintf("first %d, first %[1]d", first.Version))
		equal(c, "specs", len(c.controlState(uuid.Nil, -1).Specs), 1)
		agree := func([]storage.Spec) error { return nil }
		c.must(c.Store.RemoveSpec(c.ctx, action, "first", first.Version, agree))
		equal(c, "specs", len(c.controlState(uuid.Nil, -1).Specs), 0)
	}},
	{"a job is changed and removed only at its current version", func(c *check) {
		before := c.now()
		first := c.put("a", 0)
		if first.Job != "a" || first.Version < 1 || first.ChangedBy != "ann" || first.Removed {
			c.Errorf("added %+v", first)
		}
		within(c, "changed at", first.ChangedAt, before, c.now())
		second := c.put("a", first.Version)
		if second.Version <= first.Version ||
			!storage.SameParams(second.Text,
				json.RawMessage(fmt.Sprintf(`{"seen": %d}`, first.Version))) {
			c.Errorf("changed %+v after %+v", second, first)
		}
		for _, seen := range []int64{0, first.Version, second.Version + 1} {
			_, err := c.Store.PutSpec(c.ctx, storage.Action{Actor: "bob", Via: "go"},
				storage.Spec{Job: "a", Text: json.RawMessage(`{}`), Version: seen})
			c.refused(fmt.Sprint("a change of version ", seen), err, storage.ErrConflict)
			if !strings.Contains(err.Error(), "ann") {
				c.Errorf("got error %q, want the name of the actor", err)
			}
			c.refused(fmt.Sprint("a removal of version ", seen),
				c.Store.RemoveSpec(c.ctx, action, "a", seen), storage.ErrConflict)
		}
		c.must(c.Store.RemoveSpec(c.ctx, action, "a", second.Version))
		_, err := c.Store.PutSpec(c.ctx, action,
			storage.Spec{Job: "a", Text: json.RawMessage(`{}`), Version: second.Version})
		c.refused("a change of what was removed", err, storage.ErrConflict)
		c.refused("another removal", c.Store.RemoveSpec(c.ctx, action, "a", second.Version),
			storage.ErrConflict)
		if again := c.put("a", 0); again.Version <= second.Version {
			c.Errorf("added again %+v, after %+v", again, second)
		}
		equal(c, "specs", len(c.controlState(uuid.Nil, -1).Specs), 1)
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{Target: "job a"})), 4)
	}},
	{"a job that was not added cannot be changed or removed", func(c *check) {
		_, err := c.Store.PutSpec(c.ctx, action,
			storage.Spec{Job: "a", Text: json.RawMessage(`{}`), Version: 1})
		c.refused("a change", err, storage.ErrNotFound)
		c.refused("a removal", c.Store.RemoveSpec(c.ctx, action, "a", 1), storage.ErrNotFound)
	}},
	{"one of several concurrent changes of a job succeeds", func(c *check) {
		version := int64(0)
		for range 3 {
			put := make([]storage.Spec, 6)
			errs := make([]error, len(put))
			var all sync.WaitGroup
			for i := range put {
				store := []storage.Store{c.Store, c.Second()}[i%2]
				all.Go(func() {
					put[i], errs[i] = store.PutSpec(c.ctx, action,
						storage.Spec{Job: "a", Text: json.RawMessage(fmt.Sprintf(`{"n": %d}`, i)),
							Version: version})
				})
			}
			all.Wait()
			winners := 0
			for i := range put {
				switch {
				case errs[i] == nil:
					winners++
					version = put[i].Version
				case !errors.Is(errs[i], storage.ErrConflict):
					c.Errorf("got error %v, want a conflict", errs[i])
				}
			}
			equal(c, "winners", winners, 1)
			equal(c, "version", c.controlState(uuid.Nil, -1).Specs[0].Version, version)
		}
	}},
	{"a job of the configuration cannot be changed at run time", func(c *check) {
		s := c.session("one")
		c.registerAll(s, "h", "a")
		_, err := c.Store.PutSpec(c.ctx, action,
			storage.Spec{Job: "a", Text: json.RawMessage(`{}`)})
		c.refused("a change", err, storage.ErrFromConfig)
		c.refused("a removal", c.Store.RemoveSpec(c.ctx, action, "a", 1), storage.ErrFromConfig)
		refuse := func([]storage.Spec) error { return errors.New("asked a check") }
		_, err = c.Store.PutSpec(c.ctx, action,
			storage.Spec{Job: "a", Text: json.RawMessage(`{}`)}, refuse)
		c.refused("a change that a check refuses", err, storage.ErrFromConfig)
		c.must(c.Store.End(c.ctx, s))
		_, err = c.Store.PutSpec(c.ctx, action, storage.Spec{Job: "a", Text: json.RawMessage(`{}`)})
		c.refused("a change without live sessions", err, storage.ErrFromConfig)
		c.registerAll(c.session("two"), "h", "b") // no configuration has job a now
		c.put("a", 0)
	}},
	{"no session starts a removed job, even before it knows of the removal", func(c *check) {
		spec, one := c.put("a", 0), c.session("one")
		version := c.registerAdded(one, "h", "a")
		r := request("a", 1)
		r.Version = version
		token := c.granted(one, r)
		definitions := c.definitions(one)
		c.must(c.Store.RemoveSpec(c.ctx, action, "a", spec.Version))
		if c.definitions(one) <= definitions {
			c.Error("the heartbeat did not report a change of the active definition")
		}
		late := request("a", 2)
		late.Version = version
		c.outcome(one, late, storage.StartStale)
		c.noRun(late)
		two := c.session("two")
		// a replica that opens a session before it knows of the change
		late.Version = c.registerAdded(two, "h", "a")
		c.outcome(two, late, storage.StartStale)
		if now := c.versions()["a"].Version; now >= 0 {
			c.Errorf("version %d is active", now)
		}
		views, err := c.Store.Jobs(c.ctx)
		c.must(err)
		if len(views) != 1 || !views[0].Removed || views[0].Version != version ||
			views[0].Hash != "h" || views[0].Source != storage.FromStore {
			c.Errorf("jobs %+v, want the removed one", views)
		}
		if _, err := c.trigger("a", "k"); !errors.Is(err, storage.ErrNotFound) {
			c.Errorf("trigger of a removed job: %v", err)
		}
		if _, err := c.Store.Pause(c.ctx, action, jobA); !errors.Is(err, storage.ErrNotFound) {
			c.Errorf("pause of a removed job: %v", err)
		}
		c.finished(r, token, jobs.Waiting) // a running run is not cancelled
		r.Attempt = 2
		c.finished(r, c.granted(one, r), jobs.Succeeded)
	}},
	{"waiting runs of a removed job are cancelled", func(c *check) {
		spec, s := c.put("a", 0), c.session("one")
		c.registerAdded(s, "h", "a")
		waits := c.waiting(s, "a", 1)
		triggered, err := c.trigger("a", "k")
		c.must(err)
		c.must(c.Store.RemoveSpec(c.ctx, action, "a", spec.Version))
		for _, run := range []uuid.UUID{waits.Run, triggered.ID} {
			record := c.record(run, jobs.Cancelled)
			if record.Reason != reasons.Cancelled ||
				!strings.Contains(record.Detail, "removed by ann") {
				c.Errorf("cancelled run %+v", record)
			}
		}
		c.outcome(s, waits, storage.StartDuplicate)
	}},
	{"a sweep cancels waiting runs of a removed job and a dead session", func(c *check) {
		spec, s := c.put("a", 0), c.session("one")
		c.registerAdded(s, "h", "a")
		r := request("a", 1)
		token := c.granted(s, r)
		c.must(c.Store.RemoveSpec(c.ctx, action, "a", spec.Version))
		c.finished(r, token, jobs.Waiting)
		c.sweep()
		c.record(r.Run, jobs.Waiting)
		c.Expire(s)
		c.sweep()
		c.sweep()
		c.record(r.Run, jobs.Cancelled)
	}},
	{"a removed job that is added again fires from that time on", func(c *check) {
		spec, s := c.put("a", 0), c.session("one")
		version := c.registerAdded(s, "h", "a")
		c.must(c.Store.RemoveSpec(c.ctx, action, "a", spec.Version))
		c.put("a", 0)
		before := c.now()
		equal(c, "version", c.registerAdded(s, "h", "a"), version)
		now := c.versions()["a"]
		equal(c, "active version", now.Version, version)
		within(c, "checked until", now.CheckedUntil, before, c.now())
		r := request("a", 1)
		r.Version = version
		c.granted(s, r)
	}},
	{"a job of the configuration fires after an added job of its name was removed", func(c *check) {
		spec, s := c.put("a", 0), c.session("one")
		c.registerAdded(s, "h1", "a")
		c.must(c.Store.RemoveSpec(c.ctx, action, "a", spec.Version))
		r := request("a", 1)
		r.Version = c.registerAll(s, "h2", "a")["a"]
		c.activeDefinitions("a", r.Version)
		c.granted(s, r)
	}},
	{"an added job is known before a session registers it", func(c *check) {
		c.put("a", 0)
		c.pause(jobA)
		c.resume(jobA)
		run, err := c.trigger("a", "k")
		c.must(err)
		s := c.session("one")
		c.registerAdded(s, "h", "a")
		equal(c, "adopted", ids(c.adopt(s, 10, "a")), ids([]storage.Record{run}))
	}},
	{"params of a trigger are stored and passed to recoveries", func(c *check) {
		c.recovering("a")
		one, two := c.session("one"), c.session("two")
		params := json.RawMessage(`{"account": "acme", "n": 1e3}`)
		run, err := c.Store.Trigger(c.ctx, action,
			storage.TriggerRequest{Job: "a", Key: "k", Params: params})
		c.must(err)
		if !storage.SameParams(run.Params, c.record(run.ID, jobs.Waiting).Params) ||
			!strings.Contains(string(run.Params), "acme") {
			c.Errorf("params %s", run.Params)
		}
		again, err := c.Store.Trigger(c.ctx, action,
			storage.TriggerRequest{Job: "a", Key: "k",
				Params: json.RawMessage(`{"n":1e3,  "account":"acme"}`)})
		c.must(err)
		equal(c, "run", again.ID, run.ID)
		for _, other := range []string{"", `{}`, `{"account": "globex"}`} {
			_, err = c.Store.Trigger(c.ctx, action,
				storage.TriggerRequest{Job: "a", Key: "k", Params: paramsOf(other)})
			c.refused("params "+other, err, storage.ErrConflict)
		}
		adopted := c.adopt(one, 10, "a")
		equal(c, "adopted params", storage.SameParams(adopted[0].Params, run.Params), true)
		c.granted(one, storage.StartRequest{Run: run.ID,
			Firing: storage.Firing{Job: "a", ScheduledAt: run.ScheduledAt, Key: "k"}, Attempt: 1})
		c.Expire(one)
		c.sweep()
		recovery := c.adopt(two, 10, "a")
		equal(c, "recoveries", len(recovery), 1)
		equal(c, "recovered params", storage.SameParams(recovery[0].Params, run.Params), true)
		without, err := c.trigger("a", "k2")
		c.must(err)
		equal(c, "params of none", len(without.Params), 0)
	}},
}

func paramsOf(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}
