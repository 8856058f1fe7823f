package jobstest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var definitionRules = []rule{
	{"a new definition gets version 1", func(c *check) {
		versions := c.register("h1", "a", "b")
		if len(versions) != 2 || versions["a"] < 1 || versions["b"] < 1 {
			c.Fatalf("versions %v, want those of a and b, each from 1", versions)
		}
	}},
	{"the same hash keeps its version", func(c *check) {
		first := c.register("h1", "a", "b")
		if again := c.register("h1", "a", "b"); !maps.Equal(first, again) {
			c.Errorf("versions %v, then %v", first, again)
		}
	}},
	{"a new hash gets the next version, a known hash gets its old version", func(c *check) {
		first := c.register("h1", "a", "b")
		changed := c.register("h2", "a")
		equal(c, "version of the changed job", changed["a"], first["a"]+1)
		equal(c, "version of the job changed back", c.register("h1", "a")["a"], first["a"])
		equal(c, "version of another change", c.register("h3", "a")["a"], first["a"]+2)
		equal(c, "version of the first change", c.register("h2", "a")["a"], first["a"]+1)
	}},
	{"a definition keeps its version", func(c *check) {
		s := c.session("one")
		first := c.registerAll(s, "h1", "a")["a"]
		c.must(c.Store.End(c.ctx, s))
		c.sweep()
		second := c.register("h2", "a")["a"]
		equal(c, "version when it is registered again", c.register("h1", "a")["a"], first)
		equal(c, "version of the other definition", second, first+1)
	}},
	{"registering again changes nothing", func(c *check) {
		s := c.session("one")
		first := c.registerAll(s, "h1", "a", "b")
		before := c.definitions(s)
		if again := c.registerAll(s, "h1", "a", "b"); !maps.Equal(first, again) {
			c.Errorf("versions %v, then %v", first, again)
		}
		equal(c, "count of changes", c.definitions(s), before)
		c.activeDefinitions("a", first["a"])
	}},
	{"jobs that are not registered again stay", func(c *check) {
		first := c.register("h1", "a", "b")
		c.register("h1", "c")
		equal(c, "jobs", len(c.versions()), 3)
		c.activeDefinitions("b", first["b"])
	}},
	{"an empty store has no versions", func(c *check) { equal(c, "jobs", len(c.versions()), 0) }},
	{"an empty registration does nothing", func(c *check) {
		equal(c, "versions", len(c.registerAll(c.session("one"), "h1")), 0)
	}},
	{"a definition is read as it was written", func(c *check) {
		want := storage.Definition{
			Name: "päivä/\"x\"", Hash: "h", Schedule: "0 0 12 L * ?", Zone: "Europe/Berlin",
			Handler: "sql", Recover: true,
			Resources: []locking.Request{table("public/orders"), shared("public/sales"),
				slot("vendor", 5), path("a/b c")},
			Description: `{"k": "<é>"}`, Group: "yö", Priority: 9, Source: storage.FromStore,
		}
		before := c.now()
		_, err := c.Store.Register(c.ctx, c.session("one"), []storage.Definition{want})
		c.must(err)
		views, err := c.Store.Jobs(c.ctx)
		c.must(err)
		if len(views) != 1 {
			c.Fatalf("%d jobs, want 1", len(views))
		}
		if diff := cmp.Diff(want, views[0].Definition,
			cmp.AllowUnexported(locking.Resource{})); diff != "" {
			c.Errorf("definition (-written +read):\n%s", diff)
		}
		within(c, "updated at", views[0].UpdatedAt, before, c.now())
		if views[0].Last != nil {
			c.Errorf("last run %+v of a job that never ran", views[0].Last)
		}
	}},
	{"a job shows its active definition after each change", func(c *check) {
		c.register("h1", "a")
		s := c.session("one")
		_, err := c.Store.Register(c.ctx, s,
			[]storage.Definition{{Name: "a", Hash: "h2", Schedule: "@daily", Zone: "UTC",
				Handler: "http", Description: "{}"}})
		c.must(err)
		if v := c.job("a"); v.Schedule != "@daily" || v.Handler != "http" || v.Version != 2 {
			c.Errorf("job %+v, want the second definition as version 2", v)
		}
		c.must(c.Store.End(c.ctx, s))
		if v := c.job("a"); v.Schedule != "@hourly" || v.Handler != "nothing" || v.Version != 1 {
			c.Errorf("job %+v, want the first definition as version 1", v)
		}
	}},
	{"jobs that a session withdraws stay with other sessions", func(c *check) {
		one, two := c.compared("one"), c.compared("two")
		c.registerAll(one, "h1", "a", "b")
		c.registerAll(two, "h1", "a", "b")
		c.registerAll(one, "h2", "a", "b")
		c.activeDefinitions("a", 2)
		before := c.definitions(one)
		c.must(c.Store.Withdraw(c.ctx, one, "other table", []string{"a", "unknown"}))
		c.activeDefinitions("a", 1)
		c.activeDefinitions("b", 2)
		if c.definitions(one) <= before {
			c.Error("the heartbeat reported no change")
		}
		equal(c, "cron table", c.replica(one).ConfigHash, "other table")
		after := c.definitions(one)
		c.must(c.Store.Withdraw(c.ctx, one, "other table", []string{"a", "unknown"}))
		equal(c, "count of changes after a repeated withdrawal", c.definitions(one), after)
	}},
	{"a job shows since when no session has it", func(c *check) {
		one, two := c.compared("one"), c.compared("two")
		c.registerAll(one, "h1", "a")
		c.registerAll(two, "h1", "a")
		absentSince := func() *time.Time {
			c.Helper()
			v, err := c.Store.Job(c.ctx, "a")
			c.must(err)
			return v.AbsentSince
		}
		c.must(c.Store.Withdraw(c.ctx, one, "t", []string{"a"}))
		if at := absentSince(); at != nil {
			c.Errorf("absent since %s beside a session that has the job", at)
		}
		before := c.now()
		c.must(c.Store.Withdraw(c.ctx, two, "t", []string{"a"}))
		if at := absentSince(); at == nil || at.Before(before) || at.After(c.now()) {
			c.Errorf("absent since %v, want the time of the last withdrawal", at)
		}
		c.registerAll(one, "h1", "a")
		if at := absentSince(); at != nil {
			c.Errorf("absent since %s although a session has the job again", at)
		}
	}},
	{"a definition stays active when no session has it",
		func(c *check) {
			s := c.compared("one")
			c.registerAll(s, "h1", "a")
			checked := c.versions()["a"].CheckedUntil
			c.must(c.Store.Withdraw(c.ctx, s, "t", []string{"a"}))
			c.activeDefinitions("a", 1)
			c.registerAll(s, "h1", "a")
			c.activeDefinitions("a", 1)
			if again := c.versions()["a"].CheckedUntil; !again.Equal(checked) {
				c.Errorf("the cursor was at %s and is at %s", checked, again)
			}
		}},
	{"an older definition is active again when its session has withdrawn the newer",
		func(c *check) {
			s := c.compared("one")
			c.registerAll(s, "h1", "a")
			c.registerAll(s, "h2", "a")
			c.activeDefinitions("a", 2)
			c.must(c.Store.Withdraw(c.ctx, s, "t", []string{"a"}))
			c.registerAll(s, "h1", "a")
			c.activeDefinitions("a", 1)
			r := request("a", 1)
			r.Version = 1
			c.granted(s, r)
		}},
	{"an ended session withdraws nothing", func(c *check) {
		one := c.compared("one")
		c.registerAll(one, "h1", "a")
		c.must(c.Store.End(c.ctx, one))
		table := c.replica(one).ConfigHash
		c.must(c.Store.Withdraw(c.ctx, one, "other table", []string{"a"}))
		equal(c, "cron table", c.replica(one).ConfigHash, table)
		c.must(c.Store.Withdraw(c.ctx, uuid.New(), "other table", []string{"a"}))
		c.activeDefinitions("a", 1)
	}},
	{"a new description does not change the version", func(c *check) {
		one, two := c.session("one"), c.session("two")
		old := definition("a", "h1")
		first, err := c.Store.Register(c.ctx, one, []storage.Definition{old})
		c.must(err)
		described := old
		described.Description = "rolls sales up"
		again, err := c.Store.Register(c.ctx, two, []storage.Definition{described})
		c.must(err)
		equal(c, "version", again["a"], first["a"])
		if v := c.job("a"); v.Description != "rolls sales up" || v.Version != first["a"] {
			c.Errorf("job %+v, want version %d with the new description", v, first["a"])
		}
		r := request("a", 1)
		r.Version = first["a"]
		c.granted(one, r)
	}},
	{"the newest definition of the live sessions is active", func(c *check) {
		old, newer := c.session("old"), c.session("newer")
		c.registerAll(old, "h1", "a")
		c.activeDefinitions("a", 1)
		c.registerAll(newer, "h2", "a")
		c.activeDefinitions("a", 2)
		again := c.session("old again") // an old replica that restarts in the middle of a deploy
		equal(c, "version", c.registerAll(again, "h1", "a")["a"], 1)
		c.activeDefinitions("a", 2)
		c.must(c.Store.End(c.ctx, old))
		c.activeDefinitions("a", 2)
	}},
	{"an older definition becomes active when the last newer session ends", func(c *check) {
		old, second, third := c.session("old"), c.session("second"), c.session("third")
		c.registerAll(old, "h1", "a", "b")
		c.registerAll(second, "h2", "a")
		c.registerAll(third, "h2", "a")
		c.must(c.Store.End(c.ctx, second))
		c.activeDefinitions("a", 2)
		c.must(c.Store.End(c.ctx, third))
		c.activeDefinitions("a", 1)
		c.activeDefinitions("b", 1)
		old1, new2 := request("a", 1), request("a", 2)
		old1.Version, new2.Version = 1, 2
		c.granted(old, old1)
		c.outcome(old, new2, storage.StartStale)
	}},
	{"the newest definition that a live session has becomes active again", func(c *check) {
		for _, hash := range []string{"h1", "h2", "h3", "h4"} {
			c.must(c.Store.End(c.ctx, c.sessionWith(hash, "a")))
		}
		c.sessionWith("h1", "a")
		c.sessionWith("h2", "a")
		top := c.sessionWith("h4", "a")
		c.activeDefinitions("a", 4)
		c.must(c.Store.End(c.ctx, top))
		c.activeDefinitions("a", 2) // no session has the third definition
	}},
	{"a sweep removes the definitions of an expired session", func(c *check) {
		c.sessionWith("h1", "a")
		dead := c.sessionWith("h2", "a")
		c.Expire(dead)
		c.sweep()
		c.activeDefinitions("a", 1)
	}},
	{"a sweep removes the definitions of several expired sessions", func(c *check) {
		c.sessionWith("h1", "a")
		for _, hash := range []string{"h2", "h2", "h3"} {
			c.Expire(c.sessionWith(hash, "a"))
		}
		c.sweep()
		c.activeDefinitions("a", 1)
	}},
	{"a sweep removes the definitions of an ended session with claims", func(c *check) {
		c.sessionWith("h1", "a")
		s := c.sessionWith("h2", "a")
		c.granted(s, request("a", 1, table("s/a")))
		c.must(c.Store.End(c.ctx, s)) // its claim remains
		c.sweep()
		c.activeDefinitions("a", 1)
	}},
	{"a job without sessions keeps its active definition", func(c *check) {
		c.must(c.Store.End(c.ctx, c.sessionWith("h1", "a")))
		c.activeDefinitions("a", 1)
		c.Expire(c.sessionWith("h2", "a"))
		c.sweep()
		c.activeDefinitions("a", 2)
		equal(c, "version shown", c.job("a").Version, 2)
		c.sessionWith("h1", "a") // the cluster restarts with its previous definitions
		c.activeDefinitions("a", 1)
	}},
	{"the last registration of a session counts for each job", func(c *check) {
		s := c.sessionWith("h1", "a", "b")
		c.registerAll(s, "h2", "a")
		c.activeDefinitions("a", 2)
		c.activeDefinitions("b", 1)
		c.registerAll(s, "h1", "a")
		c.activeDefinitions("a", 1)
	}},
	{"a dead session cannot register", func(c *check) {
		c.sessionWith("h1", "a")
		ended, expired := c.session("ended"), c.session("expired")
		c.must(c.Store.End(c.ctx, ended))
		c.Expire(expired)
		for _, dead := range []uuid.UUID{ended, expired, uuid.New()} {
			if _, err := c.Store.Register(c.ctx, dead,
				[]storage.Definition{definition("a", "h2")}); !errors.Is(err,
				storage.ErrSessionLost) {
				c.Errorf("registration of a dead session: %v, want ErrSessionLost", err)
			}
			c.activeDefinitions("a", 1)
		}
		c.sweep()
		c.activeDefinitions("a", 1)
	}},
	{"a heartbeat reports a change of the active definition", func(c *check) {
		watcher := c.session("watcher")
		before := c.definitions(watcher)
		moved := func(what string, want bool) {
			c.Helper()
			now := c.definitions(watcher)
			equal(c, what, now > before, want)
			before = now
		}
		first := c.sessionWith("h1", "a")
		moved("by a new job", true)
		second := c.sessionWith("h1", "a")
		moved("by another session with the same", false)
		newer := c.sessionWith("h2", "a")
		moved("by a newer definition", true)
		c.must(c.Store.End(c.ctx, c.sessionWith("h1", "a")))
		moved("by an older one that comes and goes", false)
		c.must(c.Store.End(c.ctx, first))
		moved("by the end of an older one", false)
		c.must(c.Store.End(c.ctx, newer))
		moved("by the end of the newest", true)
		c.must(c.Store.End(c.ctx, second))
		moved("by the end of the last", false)
	}},
	{"a large cron table is registered completely", func(c *check) {
		const n = 2*storage.MaxBatch + 100
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprint("job ", i)
		}
		equal(c, "versions", len(c.register("h1", names...)), n)
		s := c.session("one")
		for name, version := range c.registerAll(s, "h2", names...) {
			if version != 2 {
				c.Fatalf("version %d of %s, want 2", version, name)
			}
		}
		c.must(c.Store.End(c.ctx, s))
		versions := c.versions()
		equal(c, "jobs", len(versions), n)
		for name, now := range versions {
			if now.Version != 1 {
				c.Fatalf("version %d of %s is active, want 1", now.Version, name)
			}
		}
	}},
	{"a start with an older definition is stale", func(c *check) {
		s := c.session("one")
		old := c.register("h1", "a")["a"]
		r := request("a", 1, table("s/a"))
		r.Version = old
		c.register("h2", "a")
		c.outcome(s, r, storage.StartStale)
		equal(c, "locks", len(c.locks()), 0)
		r.Version = old + 1
		c.granted(s, r)
	}},
	{"a stale start does not use up the firing", func(c *check) {
		s := c.session("one")
		old := request("a", 1)
		old.Version = c.register("h1", "a")["a"]
		current := request("a", 1)
		current.Version = c.register("h2", "a")["a"]
		c.outcome(s, old, storage.StartStale)
		c.granted(s, current)
	}},
	{"a note with an older definition is refused", func(c *check) {
		s := c.session("one")
		old := request("a", 1)
		old.Version = c.register("h1", "a")["a"]
		current := request("a", 1)
		current.Version = c.register("h2", "a")["a"]
		equal(c, "note of the old definition",
			c.note(s, noteOf(old, jobs.Skipped, reasons.LockHeld)), false)
		c.granted(s, current)
	}},
	{"a newer definition does not revoke a grant", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		r.Version = c.register("h1", "a")["a"]
		token := c.granted(s, r)
		c.register("h2", "a")
		equal(c, "token of the resent request", c.granted(s, r), token)
	}},
	{"a start with version 0 skips the check of the definition", func(c *check) {
		s := c.session("one")
		c.register("h1", "a")
		c.register("h2", "a")
		c.granted(s, request("a", 1))
	}},
	{"the newest definition of the remaining sessions is active", comeAndGo},
}

// comeAndGo opens and ends sessions with random definitions at the same time. Some of them die.
func comeAndGo(c *check) {
	names := []string{"a", "b", "c", "d"}
	var mu sync.Mutex
	newest := map[string]int64{}
	c.eachContender(func(n int, r *rand.Rand, store storage.Store, _ uuid.UUID) {
		for round := range 8 {
			id, stays := uuid.New(), round == 7 && n%3 == 0
			err := store.Open(c.ctx, storage.Session{ID: id, Replica: fmt.Sprint(n), Version: "v1",
				TTL: ttl})
			var definitions []storage.Definition
			for _, i := range r.Perm(len(names))[:1+r.IntN(len(names))] {
				definitions = append(definitions, definition(names[i], fmt.Sprint("h", r.IntN(6))))
			}
			var versions map[string]int64
			for err == nil || errors.Is(err, storage.ErrUnavailable) {
				if versions, err = store.Register(c.ctx, id, definitions); err == nil {
					break
				}
			}
			if err == nil && !stays {
				if r.IntN(4) == 0 {
					mu.Lock()
					c.Expire(id)
					mu.Unlock()
					_, err = store.Sweep(c.ctx)
				} else {
					err = store.End(c.ctx, id)
				}
			}
			if err != nil {
				c.Errorf("contender %d, round %d: %v", n, round, err)
				return
			}
			if !stays {
				continue
			}
			mu.Lock()
			for name, version := range versions {
				newest[name] = max(newest[name], version)
			}
			mu.Unlock()
		}
	})
	for range 2 { // work that an end or a sweep left for the next sweep
		c.sweep()
	}
	if len(newest) == 0 {
		c.Fatal("no session is left")
	}
	for name, version := range newest {
		c.activeDefinitions(name, version)
	}
}

// definition returns a minimal definition of the job.
func definition(job, hash string) storage.Definition {
	return storage.Definition{Name: job, Hash: hash, Schedule: "@hourly", Zone: "UTC",
		Handler: "nothing", Description: "{}"}
}

// registerAll registers definitions with the hash for the session and returns their
// versions.
func (c *check) registerAll(session uuid.UUID, hash string, names ...string) map[string]int64 {
	c.Helper()
	definitions := make([]storage.Definition, len(names))
	for i, name := range names {
		definitions[i] = definition(name, hash)
	}
	versions, err := c.Store.Register(c.ctx, session, definitions)
	c.must(err)
	return versions
}

// sessionWith opens a session that has definitions with the hash.
func (c *check) sessionWith(hash string, names ...string) uuid.UUID {
	c.Helper()
	s := c.session("with " + hash)
	c.registerAll(s, hash, names...)
	return s
}

func (c *check) versions() map[string]storage.ActiveDefinition {
	c.Helper()
	versions, err := c.Store.Versions(c.ctx)
	c.must(err)
	return versions
}

// activeDefinitions fails the test unless this version of the job is active.
func (c *check) activeDefinitions(job string, version int64) {
	c.Helper()
	if now := c.versions()[job].Version; now != version {
		c.Fatalf("version %d of %s is active, want %d", now, job, version)
	}
}

// definitions returns the count of changes in a heartbeat of the session.
func (c *check) definitions(session uuid.UUID) int64 {
	c.Helper()
	heartbeat, err := c.Store.Heartbeat(c.ctx, session, storage.ReplicaStatus{})
	c.must(err)
	return heartbeat.Definitions
}

func (c *check) job(name string) storage.JobView {
	c.Helper()
	views, err := c.Store.Jobs(c.ctx)
	c.must(err)
	for _, v := range views {
		if v.Name == name {
			return v
		}
	}
	c.Fatalf("job %s is not among %+v", name, views)
	return storage.JobView{}
}
