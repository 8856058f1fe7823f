package jobstest

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// timesOf formats the sessions that were live in the last time: their names, their ends and their
// drains.
func (c *check) timesOf(within time.Duration, n int) string {
	c.Helper()
	now, err := c.Store.Now(c.ctx)
	c.must(err)
	list, err := c.Store.ReplicaSessions(c.ctx, now.Add(-within), n)
	c.must(err)
	var all []string
	for _, r := range list {
		text := r.Name
		switch {
		case r.EndedAt == nil:
			if !r.ExpiresAt.After(now) {
				c.Errorf("live session %+v expires before %s", r, now)
			}
		case r.Stopped:
			text += " stopped"
		default:
			text += " lost"
		}
		if r.StartedAt.IsZero() || r.StartedAt.After(r.ExpiresAt) || r.Version == "" ||
			r.Session == uuid.Nil || r.Drains == nil {
			c.Errorf("times of session %+v", r)
		}
		for _, d := range r.Drains {
			text += " drained"
			if d.From.Before(r.StartedAt) {
				c.Errorf("session %+v drained before it began", r)
			}
			if d.Until == nil {
				text += "-"
			} else if d.Until.Before(d.From) {
				c.Errorf("session %+v has a drain that ends before it begins", r)
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

var replicaSessionRules = []rule{
	{"the times of a session are known for a day after its end", func(c *check) {
		const day = storage.ReplicaSessionsKept
		live, stopped, lost := c.session("b"), c.session("a"), c.session("c")
		equal(c, "live", c.timesOf(day, 10), "a, b, c")
		c.drain(stopped, true)
		c.drain(stopped, true) // changes nothing
		c.must(c.Store.End(c.ctx, stopped))
		c.Expire(lost)
		c.sweep()
		const all = "a stopped drained-, b, c lost"
		equal(c, "ended", c.timesOf(day, 10), all)
		c.PassEnded(2 * storage.SessionsKept)
		c.sweep()
		equal(c, "list", c.replicas(), "b")
		equal(c, "a sweep later", c.timesOf(day, 10), all)
		equal(c, "within an hour", c.timesOf(time.Hour, 10), "b")
		c.PassEnded(day - 3*storage.SessionsKept)
		c.sweep()
		equal(c, "almost a day later", c.timesOf(day, 10), all)
		c.PassEnded(2 * storage.SessionsKept)
		c.sweep()
		equal(c, "a day later", c.timesOf(day, 10), "b")
		c.drain(live, true)
		c.drain(live, false)
		c.drain(live, false)
		c.drain(live, true)
		equal(c, "drains", c.timesOf(day, 10), "b drained drained-")
	}},
	{"only the youngest sessions are listed, and no removed ones", func(c *check) {
		var ids []uuid.UUID
		for i := range 4 {
			ids = append(ids, c.session(fmt.Sprintf("r%d", 4-i)))
		}
		equal(c, "youngest", c.timesOf(time.Hour, 2), "r1, r2")
		c.Expire(ids[3])
		c.sweep()
		equal(c, "lost", c.timesOf(time.Hour, 10), "r1 lost, r2, r3, r4")
		c.must(c.Store.RemoveReplica(c.ctx, action, ids[3]))
		equal(c, "removed", c.timesOf(time.Hour, 10), "r2, r3, r4")
		c.PassEnded(2 * storage.SessionsKept)
		c.sweep()
		equal(c, "removed earlier", c.timesOf(storage.ReplicaSessionsKept, 10), "r2, r3, r4")
	}},
	{"a session records a bounded number of drains", func(c *check) {
		s := c.session("a")
		for range storage.MaxDrains + 2 {
			c.drain(s, true)
			c.drain(s, false)
		}
		c.drain(s, true)
		equal(c, "draining", c.controlState(s, -1).Draining, true)
		list, err := c.Store.ReplicaSessions(c.ctx, time.Time{}.AddDate(2000, 0, 0), 10)
		c.must(err)
		if len(list) != 1 || len(list[0].Drains) != storage.MaxDrains {
			c.Errorf("got %+v, want %d drains", list, storage.MaxDrains)
		}
	}},
}
