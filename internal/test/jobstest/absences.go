package jobstest

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// absenceRules are about jobs that no session has for a time.
var absenceRules = []rule{
	{"a job that nobody carried for long while others lived begins anew", func(c *check) {
		other := c.sessionWith("h", "b")
		for name, ends := range map[string]func(*check, uuid.UUID){"ended": endOf,
			"dead": deathOf} {
			s := c.sessionWith("h", "a")
			version := c.versions()["a"].Version
			ends(c, s)
			c.Pass(storage.MaxAbsence + time.Hour)
			before := c.definitions(other) // it lives
			back := c.now()
			s = c.sessionWith("h", "a", "b")
			if after := c.definitions(other); after == before {
				c.Errorf("%s: the counter does not grow", name)
			}
			if now := c.versions()["a"]; now.CheckedUntil.Before(back) || now.Version != version {
				c.Errorf("%s: in force is %+v, expected the scheduled times from %s on to count",
					name, now, back)
			}
			if since := c.job("a").UpdatedAt; since.Before(back) {
				c.Errorf("%s: it counts since %s, expected %s", name, since, back)
			}
			if now := c.versions()["b"]; !now.CheckedUntil.Before(back) {
				c.Errorf("%s: the cursor of a job that never left is at %s", name, now.CheckedUntil)
			}
			endOf(c, s)
		}
	}},
	{"a job that nobody carried while nobody lived is caught up with", func(c *check) {
		s := c.sessionWith("h", "a")
		since := c.job("a").UpdatedAt
		for _, ends := range []func(*check, uuid.UUID){endOf, deathOf} {
			ends(c, s)
			c.Pass(10 * time.Hour)
			before := c.versions()["a"].CheckedUntil
			other := c.session("another that has just begun")
			s = c.sessionWith("h", "a")
			equal(c, "cursor", c.versions()["a"].CheckedUntil, before)
			equal(c, "in force since", c.job("a").UpdatedAt, since)
			endOf(c, other)
		}
	}},
	{"a job whose replica is soon back is caught up with", func(c *check) {
		other := c.sessionWith("h", "b")
		deathOf(c, c.sessionWith("h", "a"))
		c.Pass(storage.MaxAbsence - 10*time.Minute)
		c.definitions(other)
		before, back := c.versions()["a"].CheckedUntil, c.now()
		c.sessionWith("h", "a")
		equal(c, "cursor", c.versions()["a"].CheckedUntil, before)
		away := c.cursor(back.Add(time.Hour)).Absence
		if !away.From.Before(back.Add(-storage.MaxAbsence+11*time.Minute)) ||
			away.Until.Before(back) {
			c.Errorf("away from %s to %s, expected some 50 minutes until %s", away.From, away.Until,
				back)
		}
	}},
	{"a job that is always carried was never away", func(c *check) {
		s := c.sessionWith("h", "a")
		other := c.sessionWith("h", "a")
		endOf(c, s)
		c.Pass(2 * storage.MaxAbsence)
		c.definitions(other)
		before := c.versions()["a"].CheckedUntil
		c.sessionWith("h", "a")
		equal(c, "cursor", c.versions()["a"].CheckedUntil, before)
		equal(c, "away", c.cursor(c.now().Add(time.Hour)).Absence, storage.Span{})
	}},
	{"a cursor moves with the scheduled times, however the schedule is written", func(c *check) {
		at := func(hash, schedule, fingerprint string) time.Time {
			c.Helper()
			d := definition("a", hash)
			d.Schedule, d.Fingerprint = schedule, fingerprint
			_, err := c.Store.Register(c.ctx, c.session("one"), []storage.Definition{d})
			c.must(err)
			return c.versions()["a"].CheckedUntil
		}
		began := at("1", "@hourly", "")
		equal(c, "with a fingerprint that was not known", at("2", "@hourly", "f"), began)
		equal(c, "written otherwise", at("3", "0 * * * *", "f"), began)
		moved := at("4", "0 * * * *", "g")
		if !moved.After(began) {
			c.Error("the cursor stays although other scheduled times result")
		}
		if last := at("5", "1 * * * *", ""); !last.After(moved) {
			c.Error("the cursor stays although the schedule is another")
		}
	}},
}

func endOf(c *check, session uuid.UUID) {
	c.Helper()
	c.must(c.Store.End(c.ctx, session))
}

func deathOf(c *check, session uuid.UUID) {
	c.Helper()
	c.Expire(session)
	c.sweep()
}
