package jobstest

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var recoveryRules = []rule{
	{"a run that is lost with its session gets a waiting recovery", func(c *check) {
		c.recovering("a")
		one := c.session("one")
		r := request("a", 1, table("s/t"))
		c.granted(one, r)
		c.Expire(one)
		c.sweep()
		c.recovered(r, reasons.SessionLost)
	}},
	{"a run that is revoked as lost gets a recovery", func(c *check) {
		c.recovering("a")
		r := request("a", 1, table("s/t"))
		token := c.granted(c.session("one"), r)
		c.must(c.Store.Revoke(c.ctx, token, jobs.Lost, reasons.ClaimLost))
		c.must(c.Store.Revoke(c.ctx, token, jobs.Lost, reasons.ClaimLost))
		c.recovered(r, reasons.ClaimLost)
	}},
	{"a run that its replica ends as lost gets a recovery", func(c *check) {
		c.recovering("a")
		one := c.session("one")
		r := request("a", 1, table("s/t"))
		token := c.granted(one, r)
		c.Expire(one)
		for range 2 {
			done, err := c.Store.Finish(c.ctx,
				[]storage.FinishRequest{{Run: r.Run, Token: token, State: jobs.Lost,
					Reason: reasons.SessionLost}})
			c.must(err)
			equal(c, "finished", done[0], true)
		}
		equal(c, "lost", len(c.sweep().Lost), 0)
		c.recovered(r, reasons.SessionLost)
	}},
	{"a cancelled run and other ends get no recovery", func(c *check) {
		c.recovering("a")
		s := c.session("one")
		cancelled := request("a", 0)
		c.must(c.Store.Revoke(c.ctx, c.granted(s, cancelled), jobs.Cancelled, reasons.Cancelled))
		for i, state := range []jobs.State{jobs.Succeeded, jobs.Failed, jobs.TimedOut,
			jobs.Cancelled} {
			r := request("a", i+1)
			c.finished(r, c.granted(s, r), state)
		}
		equal(c, "adopted", len(c.adopt(c.session("two"), 10, "a")), 0)
	}},
	{"jobs without recover get no recovery", func(c *check) {
		c.recovering("b")
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		for _, job := range []string{"a", "b", "unknown"} {
			c.granted(one, request(job, 1))
		}
		c.Expire(one)
		equal(c, "lost", len(c.sweep().Lost), 3)
		adopted := c.adopt(two, 10, "a", "b", "unknown")
		if len(adopted) != 1 || adopted[0].Job != "b" {
			c.Errorf("adopted %+v, want b's successor alone", adopted)
		}
	}},
	{"the active definition decides whether a run is recovered", func(c *check) {
		c.register("h", "a")
		one := c.session("one")
		r := request("a", 1)
		c.granted(one, r)
		c.recovering("a")
		c.Expire(one)
		c.sweep()
		c.recovered(r, reasons.SessionLost)
		c.register("newest", "a")
		two := c.session("two")
		c.granted(two, request("a", 2))
		c.Expire(two)
		c.sweep()
		equal(c, "adopted", len(c.adopt(c.session("three"), 10, "a")), 0)
	}},
	{"a triggered run is recovered under its key", func(c *check) {
		c.recovering("a")
		one, two := c.session("one"), c.session("two")
		r := request("a", 1)
		r.Firing.Key = "k"
		c.granted(one, r)
		c.Expire(one)
		c.sweep()
		adopted := c.adopt(two, 10, "a")
		if len(adopted) != 1 || adopted[0].Key != "k" || adopted[0].Recovery != 1 {
			c.Fatalf("adopted %+v, want recovery 1 of key k", adopted)
		}
	}},
	{"a recovery has the params of its trigger", func(c *check) {
		params := json.RawMessage(`{"account": "acme", "n": [1, 2]}`)
		for job, lose := range map[string]func(s uuid.UUID, r storage.StartRequest,
			token jobs.Token){
			"swept": func(s uuid.UUID, _ storage.StartRequest, _ jobs.Token) {
				c.Expire(s)
				c.sweep()
			},
			"revoked": func(_ uuid.UUID, _ storage.StartRequest, token jobs.Token) {
				c.must(c.Store.Revoke(c.ctx, token, jobs.Lost, reasons.ClaimLost))
			},
			"finished": func(_ uuid.UUID, r storage.StartRequest, token jobs.Token) {
				c.finished(r, token, jobs.Lost)
			},
		} {
			c.recovering(job)
			triggered, err := c.Store.Trigger(c.ctx, action,
				storage.TriggerRequest{Job: job, Key: "k " + job, Params: params})
			c.must(err)
			one, two := c.session("one"), c.session("two")
			equal(c, "adopted", len(c.adopt(one, 10, job)), 1)
			r := storage.StartRequest{
				Run: triggered.ID,
				Firing: storage.Firing{Job: job, ScheduledAt: triggered.ScheduledAt,
					Key: triggered.Key}, Attempt: 1, WaitSince: triggered.CreatedAt,
			}
			lose(one, r, c.granted(one, r))
			adopted := c.adopt(two, 10, job)
			if len(adopted) != 1 || adopted[0].Recovery != 1 ||
				!storage.SameParams(adopted[0].Params, params) {
				c.Errorf("%s: adopted %+v with params %s, want recovery 1 with %s", job,
					adopted, adopted[0].Params, params)
			}
		}
	}},
	{"a firing is recovered at most three times", func(c *check) {
		for job, lose := range map[string]func(s uuid.UUID, r storage.StartRequest,
			token jobs.Token){
			"swept": func(s uuid.UUID, _ storage.StartRequest, _ jobs.Token) {
				c.Expire(s)
				c.sweep()
			},
			"revoked": func(_ uuid.UUID, _ storage.StartRequest, token jobs.Token) {
				c.must(c.Store.Revoke(c.ctx, token, jobs.Lost, reasons.ClaimLost))
			},
			"finished": func(_ uuid.UUID, r storage.StartRequest, token jobs.Token) {
				c.finished(r, token, jobs.Lost)
			},
		} {
			c.recovering(job)
			s, r := c.session("first"), request(job, 1)
			for n := 1; ; n++ {
				lose(s, r, c.granted(s, r))
				noted := strings.HasSuffix(c.record(r.Run, jobs.Lost).Detail, storage.NotRecovered)
				equal(c, "not recovered", noted, n > storage.MaxRecoveries)
				s = c.session("next")
				adopted := c.adopt(s, 10, job)
				if n > storage.MaxRecoveries {
					equal(c, "adopted after the last", len(adopted), 0)
					break
				}
				if len(adopted) != 1 || adopted[0].Recovery != n {
					c.Fatalf("adopted %+v, want recovery %d", adopted, n)
				}
				r.Run, r.Firing.Recovery = adopted[0].ID, n
			}
		}
	}},
	{"a lost run that is not recovered is reported once", func(c *check) {
		r := request("a", 1)
		r.Firing.Recovery = storage.MaxRecoveries
		c.recovering("a")
		token := c.granted(c.session("one"), r)
		c.finished(r, token, jobs.Lost)
		c.finished(r, token, jobs.Lost)
		equal(c, "times", strings.Count(c.record(r.Run, jobs.Lost).Detail, storage.NotRecovered), 1)
	}},
}

// recovered fails the test unless the run is lost and a new session can adopt and start its
// successor.
func (c *check) recovered(lost storage.StartRequest, reason jobs.Reason) {
	c.Helper()
	equal(c, "reason", c.record(lost.Run, jobs.Lost).Reason, reason)
	adopter := c.session("successor")
	adopted := c.adopt(adopter, 10, lost.Firing.Job)
	if len(adopted) != 1 {
		c.Fatalf("adopted %+v, want the successor", adopted)
	}
	next := adopted[0]
	if next.ID == lost.Run || next.Recovery != 1 ||
		!next.ScheduledAt.Equal(lost.Firing.ScheduledAt) || next.State != jobs.Waiting ||
		next.Job != lost.Firing.Job || next.Reason != reason ||
		!strings.Contains(next.Detail, lost.Run.String()) {
		c.Errorf("successor %+v", next)
	}
	again := lost
	again.Run, again.Firing.Recovery = next.ID, 1
	c.finished(again, c.granted(adopter, again), jobs.Succeeded)
}
