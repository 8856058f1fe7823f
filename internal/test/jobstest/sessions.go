package jobstest

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var sessionRules = []rule{
	{"an open session renews by the store's clock", func(c *check) {
		s := c.session("one")
		before := c.now()
		heartbeat, err := c.Store.Heartbeat(c.ctx, s, storage.ReplicaStatus{})
		c.must(err)
		within(c, "time of the heartbeat", heartbeat.Now, before, c.now())
		equal(c, "claims", len(heartbeat.Claims), 0)
	}},
	{"a heartbeat extends the session", func(c *check) {
		s := c.session("one")
		before := c.replica(s)
		_, err := c.Store.Heartbeat(c.ctx, s, storage.ReplicaStatus{})
		c.must(err)
		after := c.replica(s)
		if !after.ExpiresAt.After(before.ExpiresAt) ||
			!after.LastHeartbeat.After(before.LastHeartbeat) {
			c.Errorf("heartbeat %s, expiry %s before; heartbeat %s, expiry %s after",
				before.LastHeartbeat, before.ExpiresAt, after.LastHeartbeat, after.ExpiresAt)
		}
		equal(c, "time to live", after.ExpiresAt.Sub(after.LastHeartbeat), ttl)
	}},
	{"a sweep says when the next session expires", func(c *check) {
		equal(c, "next expiry without sessions", c.sweep().NextExpiry, 0)
		first, second := c.session("one"), c.session("two")
		for _, next := range []uuid.UUID{first, second} {
			before := c.now()
			expiry := c.sweep().NextExpiry
			after, expires := c.now(), c.replica(next).ExpiresAt
			if expiry < expires.Sub(after) || expiry > expires.Sub(before) {
				c.Errorf("next expiry in %s, want %s to %s", expiry, expires.Sub(after),
					expires.Sub(before))
			}
			c.Expire(next)
		}
		equal(c, "next expiry after all sessions", c.sweep().NextExpiry, 0)
	}},
	{"a repeated open changes nothing", func(c *check) {
		s := storage.Session{ID: uuid.New(), Replica: "one", Version: "v1", TTL: ttl}
		c.must(c.Store.Open(c.ctx, s))
		c.must(c.Store.Open(c.ctx, s))
		_, err := c.Store.Heartbeat(c.ctx, s.ID, storage.ReplicaStatus{})
		c.must(err)
		c.must(c.Store.End(c.ctx, s.ID))
		c.must(c.Store.Open(c.ctx, s))
		c.dead(s.ID)
	}},
	{"a session has the lock servers of its replica", func(c *check) {
		with := storage.Session{ID: uuid.New(), Replica: "one", Version: "v1", TTL: ttl,
			LockServers: "5f3a"}
		c.must(c.Store.Open(c.ctx, with))
		equal(c, "lock servers", c.replica(with.ID).LockServers, "5f3a")
		equal(c, "default lock servers", c.replica(c.session("two")).LockServers, "")
	}},
	{"a session has the cron table of its replica", func(c *check) {
		with := storage.Session{ID: uuid.New(), Replica: "one", Version: "v1", TTL: ttl,
			Table: "77b0"}
		c.must(c.Store.Open(c.ctx, with))
		equal(c, "cron table", c.replica(with.ID).ConfigHash, "77b0")
		equal(c, "default cron table", c.replica(c.session("two")).ConfigHash, "")
	}},
	{"a replica shows the vitals of its last heartbeat", func(c *check) {
		s := c.session("one")
		if r := c.replica(s); r.ClockOffset != nil || r.Workers != 0 || r.Busy != 0 ||
			r.NotReady != "" || r.Databases != nil || r.Draining || r.Stopping {
			c.Errorf("before a heartbeat: %+v", r)
		}
		offset := -1500*time.Millisecond - 600*time.Microsecond
		for _, v := range []storage.ReplicaStatus{
			{ClockOffset: &offset, Workers: 32, Busy: 7, NotReady: "its clock is off",
				Databases: []storage.DatabaseState{{Name: "marts", Since: epoch},
					{Name: "warehouse", Error: "connection refused", Since: epoch}}},
			{Workers: 32},
			{Workers: 32, Stopping: true},
		} {
			_, err := c.Store.Heartbeat(c.ctx, s, v)
			c.must(err)
			for _, store := range []storage.Store{c.Store, c.Second()} {
				r := c.replicaBy(store, s)
				equal(c, "workers", r.Workers, v.Workers)
				equal(c, "busy", r.Busy, v.Busy)
				equal(c, "not ready", r.NotReady, v.NotReady)
				equal(c, "stopping", r.Stopping, v.Stopping)
				if !slices.Equal(r.Databases, v.Databases) {
					c.Errorf("databases %+v, want %+v", r.Databases, v.Databases)
				}
				if (r.ClockOffset == nil) != (v.ClockOffset == nil) ||
					r.ClockOffset != nil && *r.ClockOffset != -1501 {
					c.Errorf("clock offset %v", r.ClockOffset)
				}
			}
		}
	}},
	{"only sessions that have not ended or expired are live", func(c *check) {
		live, ended, expires := c.session("one"), c.session("two"), c.session("three")
		asked := []uuid.UUID{ended, uuid.New(), expires, live}
		c.must(c.Store.End(c.ctx, ended))
		got, err := c.Store.LiveSessions(c.ctx, asked)
		c.must(err)
		if len(got) != 2 || !slices.Contains(got, live) || !slices.Contains(got, expires) {
			c.Errorf("live sessions: %v, want %s and %s", got, live, expires)
		}
		c.Expire(expires)
		got, err = c.Store.LiveSessions(c.ctx, asked)
		c.must(err)
		if len(got) != 1 || got[0] != live {
			c.Errorf("live sessions: %v, want %s", got, live)
		}
	}},
	{"an unknown session is lost", func(c *check) { c.dead(uuid.New()) }},
	{"an expired session never revives", func(c *check) {
		s := c.session("one")
		c.Expire(s)
		c.dead(s)
		c.dead(s)
		c.sweep()
		c.dead(s)
	}},
	{"an ended session never revives", func(c *check) {
		s := c.session("one")
		c.must(c.Store.End(c.ctx, s))
		c.dead(s)
		c.sweep()
		c.dead(s)
	}},
	{"a repeated end changes nothing", func(c *check) {
		s := c.session("one")
		c.must(c.Store.End(c.ctx, s))
		ended := c.replica(s).EndedAt
		c.must(c.Store.End(c.ctx, s))
		if again := c.replica(s).EndedAt; ended == nil || again == nil || !again.Equal(*ended) {
			c.Errorf("ended at %v, then at %v", ended, again)
		}
	}},
	{"sessions that ended and sessions that expired are distinguished", func(c *check) {
		stopped, expired, left := c.session("stopped"), c.session("expired"), c.session("left")
		c.granted(left, request("a", 1, table("s/a")))
		c.must(c.Store.End(c.ctx, stopped))
		c.must(c.Store.End(c.ctx, left)) // its claim is swept, and its run is lost
		c.Expire(expired)
		equal(c, "lost runs", len(c.sweep().Lost), 1)
		for _, store := range []storage.Store{c.Store, c.Second()} {
			for session, want := range map[uuid.UUID]bool{stopped: true, expired: false,
				left: false} {
				view := c.replicaBy(store, session)
				equal(c, view.Name+" stopped", view.Stopped, want)
				if view.EndedAt == nil {
					c.Errorf("%s has not ended: %+v", view.Name, view)
				}
			}
		}
	}},
	{"a session that succeeds others of its name expires them", func(c *check) {
		former, other := c.session("one"), c.session("two")
		mine, theirs := request("a", 1, table("s/a")), request("b", 1, table("s/b"))
		c.granted(former, mine)
		c.granted(other, theirs)
		s := storage.Session{ID: uuid.New(), Replica: "one", Version: "v2", TTL: ttl,
			ReplaceEarlier: true}
		c.must(c.Store.Open(c.ctx, s))
		if view := c.replica(former); view.ExpiresAt.After(c.now()) {
			c.Errorf("the former session is shown as live: %+v", view)
		}
		c.dead(former)
		later := c.session("one")
		c.must(c.Store.Open(c.ctx, s)) // a retry after a lost reply keeps sessions opened since
		for _, live := range []uuid.UUID{s.ID, other, later} {
			_, err := c.Store.Heartbeat(c.ctx, live, storage.ReplicaStatus{})
			c.must(err)
		}
		if lost := c.sweep().Lost; len(lost) != 1 || lost[0].ID != mine.Run {
			c.Fatalf("lost %+v, want run %s", lost, mine.Run)
		}
		c.granted(s.ID, request("a", 2, table("s/a")))
		if view := c.replica(former); view.EndedAt == nil {
			c.Errorf("the former session was not ended: %+v", view)
		}
	}},
	{"a heartbeat returns the claims of its session and no others", func(c *check) {
		one, two := c.session("one"), c.session("two")
		a, b, other := request("a", 1, table("s/a")), request("b", 1, table("s/b")),
			request("c", 1, table("s/c"))
		want := map[jobs.Token]uuid.UUID{c.granted(one, a): a.Run, c.granted(one, b): b.Run}
		c.granted(two, other)
		heartbeat, err := c.Store.Heartbeat(c.ctx, one, storage.ReplicaStatus{})
		c.must(err)
		if len(heartbeat.Claims) != 2 {
			c.Fatalf("claims %v, want %v", heartbeat.Claims, want)
		}
		for token, run := range want {
			equal(c, "claim", heartbeat.Claims[token], run)
		}
	}},
	{"a heartbeat does not return a finished claim", func(c *check) {
		s := c.session("one")
		a := request("a", 1, table("s/a"))
		c.finished(a, c.granted(s, a), jobs.Succeeded)
		heartbeat, err := c.Store.Heartbeat(c.ctx, s, storage.ReplicaStatus{})
		c.must(err)
		equal(c, "claims", len(heartbeat.Claims), 0)
	}},
	{"an end frees waiting runs at once, even if claims remain", func(c *check) {
		one, two := c.session("one"), c.session("two")
		holder, waiter := request("holder", 1, table("s/a")), request("waiter", 1, table("s/a"))
		c.granted(one, holder)
		c.blocked(one, waiter, reasons.LockHeld, holder)
		equal(c, "adopted from a live session", len(c.adopt(two, 10, "waiter")), 0)
		c.must(c.Store.End(c.ctx, one))
		adopted := c.adopt(two, 10, "waiter")
		if len(adopted) != 1 || adopted[0].ID != waiter.Run {
			c.Fatalf("adopted %+v, want run %s", adopted, waiter.Run)
		}
	}},
	{"a sweep removes claims that remain after an end", func(c *check) {
		one, two := c.session("one"), c.session("two")
		r := request("a", 1, table("s/a"))
		token := c.granted(one, r)
		c.must(c.Store.End(c.ctx, one))
		c.blocked(two, request("b", 1, table("s/a")), reasons.LockHeld, r)
		if lost := c.sweep().Lost; len(lost) != 1 || lost[0].ID != r.Run {
			c.Fatalf("lost %+v, want run %s", lost, r.Run)
		}
		equal(c, "finish of a swept run", c.finish(r, token, jobs.Succeeded), false)
		equal(c, "locks", len(c.locks()), 0)
	}},
}

// dead fails the test unless every call of the session reports that it is lost.
func (c *check) dead(session uuid.UUID) {
	c.Helper()
	if _, err := c.Store.Heartbeat(c.ctx, session, storage.ReplicaStatus{}); !errors.Is(err,
		storage.ErrSessionLost) {
		c.Fatalf("heartbeat of a dead session: %v, want ErrSessionLost", err)
	}
	r := request("of-the-dead", 1, table("s/of-the-dead"))
	c.outcome(session, r, storage.StartNotLive)
	if _, err := c.Store.Note(c.ctx, session,
		[]storage.Note{noteOf(r, jobs.Skipped, reasons.LockHeld)}); !errors.Is(err,
		storage.ErrSessionLost) {
		c.Fatalf("note of a dead session: %v, want ErrSessionLost", err)
	}
	if _, err := c.Store.Run(c.ctx, r.Run); !errors.Is(err, storage.ErrNotFound) {
		c.Fatalf("a dead session's run: %v, want ErrNotFound", err)
	}
}

// replica returns the session's view.
func (c *check) replica(session uuid.UUID) storage.ReplicaView {
	c.Helper()
	return c.replicaBy(c.Store, session)
}

func (c *check) replicaBy(store storage.Store, session uuid.UUID) storage.ReplicaView {
	c.Helper()
	replicas, err := store.Replicas(c.ctx)
	c.must(err)
	for _, r := range replicas {
		if r.Session == session {
			return r
		}
	}
	c.Fatalf("session %s is not among %+v", session, replicas)
	return storage.ReplicaView{}
}
