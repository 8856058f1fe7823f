package jobstest

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// absenceRules are about jobs that no session has for a time.
var absenceRules = []rule{
	{"a job that was absent for long gets a new cursor", func(c *check) {
		other := c.sessionWith("h", "b")
		for name, ends := range map[string]func(*check, uuid.UUID){"ended": endOf,
			"dead": deathOf} {
			s := c.sessionWith("h", "a")
			version := c.versions()["a"].Version
			ends(c, s)
			c.Pass(storage.MaxAbsence + time.Hour)
			before := c.definitions(other) // also a heartbeat
			back := c.now()
			s = c.sessionWith("h", "a", "b")
			if after := c.definitions(other); after == before {
				c.Errorf("%s: the count of changes did not grow", name)
			}
			if now := c.versions()["a"]; now.CheckedUntil.Before(back) || now.Version != version {
				c.Errorf("%s: active definition %+v, want scheduled times to count from %s",
					name, now, back)
			}
			if since := c.job("a").UpdatedAt; since.Before(back) {
				c.Errorf("%s: scheduled times count since %s, want %s", name, since, back)
			}
			if now := c.versions()["b"]; !now.CheckedUntil.Before(back) {
				c.Errorf("%s: the cursor of a job that was never absent is at %s", name,
					now.CheckedUntil)
			}
			endOf(c, s)
		}
	}},
	{"the cursor stays if no replica was alive", func(c *check) {
		s := c.sessionWith("h", "a")
		since := c.job("a").UpdatedAt
		for _, ends := range []func(*check, uuid.UUID){endOf, deathOf} {
			ends(c, s)
			c.Pass(10 * time.Hour)
			before := c.versions()["a"].CheckedUntil
			other := c.session("another that has just begun")
			s = c.sessionWith("h", "a")
			equal(c, "cursor", c.versions()["a"].CheckedUntil, before)
			equal(c, "active since", c.job("a").UpdatedAt, since)
			endOf(c, other)
		}
	}},
	{"the cursor stays after a short absence", func(c *check) {
		other := c.sessionWith("h", "b")
		deathOf(c, c.sessionWith("h", "a"))
		c.Pass(storage.MaxAbsence - 10*time.Minute)
		c.definitions(other)
		before, back := c.versions()["a"].CheckedUntil, c.now()
		c.sessionWith("h", "a")
		equal(c, "cursor", c.versions()["a"].CheckedUntil, before)
		absence := c.cursor(back.Add(time.Hour)).Absence
		if !absence.From.Before(back.Add(-storage.MaxAbsence+11*time.Minute)) ||
			absence.Until.Before(back) {
			c.Errorf("absent from %s to %s, want about 50 minutes until %s", absence.From,
				absence.Until, back)
		}
	}},
	{"a job that a session always has is not absent", func(c *check) {
		s := c.sessionWith("h", "a")
		other := c.sessionWith("h", "a")
		endOf(c, s)
		c.Pass(2 * storage.MaxAbsence)
		c.definitions(other)
		before := c.versions()["a"].CheckedUntil
		c.sessionWith("h", "a")
		equal(c, "cursor", c.versions()["a"].CheckedUntil, before)
		equal(c, "absence", c.cursor(c.now().Add(time.Hour)).Absence, storage.Span{})
	}},
	{"the cursor moves only if the scheduled times change", func(c *check) {
		at := func(hash, schedule, fingerprint string) time.Time {
			c.Helper()
			d := definition("a", hash)
			d.Schedule, d.Fingerprint = schedule, fingerprint
			_, err := c.Store.Register(c.ctx, c.session("one"), []storage.Definition{d})
			c.must(err)
			return c.versions()["a"].CheckedUntil
		}
		began := at("1", "@hourly", "")
		equal(c, "cursor after a first fingerprint", at("2", "@hourly", "f"), began)
		equal(c, "cursor after another text of the same schedule", at("3", "0 * * * *", "f"), began)
		moved := at("4", "0 * * * *", "g")
		if !moved.After(began) {
			c.Error("the cursor did not move although the scheduled times changed")
		}
		if last := at("5", "1 * * * *", ""); !last.After(moved) {
			c.Error("the cursor did not move although the schedule changed")
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
