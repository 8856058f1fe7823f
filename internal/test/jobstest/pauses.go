package jobstest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// The targets of the tests.
var (
	everything = storage.Target{Kind: storage.TargetAll}
	jobA       = storage.Target{Kind: storage.TargetJob, Name: "a"}
	night      = storage.Target{Kind: storage.TargetGroup, Name: "night"}
)

// pause pauses the target.
func (c *check) pause(target storage.Target) storage.Pause {
	c.Helper()
	p, err := c.Store.Pause(c.ctx, action, target)
	c.must(err)
	return p
}

func (c *check) resume(target storage.Target) storage.Pause {
	c.Helper()
	p, err := c.Store.Resume(c.ctx, action, target)
	c.must(err)
	return p
}

// grouped registers a job of the group night.
func (c *check) grouped(name string) {
	c.Helper()
	d := definition(name, "grouped")
	d.Group = "night"
	_, err := c.Store.Register(c.ctx, c.session("registrar"), []storage.Definition{d})
	c.must(err)
}

// noRun fails the test if the request has left a run.
func (c *check) noRun(r storage.StartRequest) {
	c.Helper()
	if _, err := c.Store.Run(c.ctx, r.Run); !errors.Is(err, storage.ErrNotFound) {
		c.Errorf("a start that is refused left a run: %v", err)
	}
}

// waiting returns a request of the session that waited for another run, which has ended.
func (c *check) waiting(session uuid.UUID, job string, n int,
	requests ...locking.Request) storage.StartRequest {
	c.Helper()
	held := table("s/hurdle-" + job)
	hurdle, r := request("hurdle-"+job, n, held), request(job, n, append(requests, held)...)
	token := c.granted(session, hurdle)
	c.blocked(session, r, reasons.LockHeld, hurdle)
	c.finished(hurdle, token, jobs.Succeeded)
	return r
}

var pauseRules = []rule{
	{"a pause has its actor and target and lasts until it is resumed", func(c *check) {
		c.register("h", "a")
		before := c.now()
		first, err := c.Store.Pause(c.ctx,
			storage.Action{Actor: "ann", Via: "api", Reason: "the vendor is down"}, jobA)
		c.must(err)
		if first.ID == uuid.Nil || first.Target != jobA || first.By != "ann" ||
			first.Reason != "the vendor is down" || first.ResumedAt != nil {
			c.Errorf("pause %+v", first)
		}
		within(c, "paused at", first.At, before, c.now())
		again, err := c.Second().Pause(c.ctx, storage.Action{Actor: "bob", Via: "cli"}, jobA)
		c.must(err)
		equal(c, "open pause", again.ID, first.ID)
		equal(c, "paused by", again.By, "ann")
		ended, err := c.Second().Resume(c.ctx, storage.Action{Actor: "bob", Via: "cli"}, jobA)
		c.must(err)
		equal(c, "pause that ended", ended.ID, first.ID)
		equal(c, "resumed by", ended.ResumedBy, "bob")
		within(c, "resumed at", *ended.ResumedAt, first.At, c.now())
		if next := c.pause(jobA); next.ID == first.ID {
			c.Errorf("the pause after it is the same: %+v", next)
		}
	}},
	{"unknown jobs cannot be paused, and only a paused target can be resumed", func(c *check) {
		if _, err := c.Store.Pause(c.ctx, action, jobA); !errors.Is(err, storage.ErrNotFound) {
			c.Errorf("pause of an unknown job: %v", err)
		}
		c.pause(night)
		c.pause(everything)
		for _, target := range []storage.Target{jobA, {Kind: storage.TargetGroup, Name: "a"}} {
			if _, err := c.Store.Resume(c.ctx, action, target); !errors.Is(err,
				storage.ErrNotFound) {
				c.Errorf("resume of %s: %v", target, err)
			}
		}
		equal(c, "audit entries", len(c.audit(storage.AuditFilter{})), 2)
	}},
	{"a start in a pause of job, group or cluster is refused without a run", func(c *check) {
		c.register("h", "a", "b")
		c.grouped("g")
		s := c.session("one")
		for n, t := range []struct {
			target storage.Target
			paused []string
			others []string
		}{{jobA, []string{"a"}, []string{"b", "g"}}, {night, []string{"g"}, []string{"a", "b"}},
			{everything, []string{"a", "b", "g"}, nil}} {
			c.pause(t.target)
			for _, job := range t.paused {
				r := request(job, n)
				c.outcome(s, r, storage.StartPaused)
				c.noRun(r)
			}
			for _, job := range t.others {
				c.granted(s, request(job, n))
			}
			c.resume(t.target)
			for _, job := range t.paused {
				c.granted(s, request(job, n))
			}
		}
	}},
	{"only paused jobs of a batch are refused", func(c *check) {
		c.register("h", "a", "b")
		c.pause(jobA)
		results := c.start(c.session("one"), request("a", 1, table("s/t")),
			request("b", 1, table("s/t")))
		equal(c, "paused", results[0].Outcome, storage.StartPaused)
		equal(c, "other", results[1].Outcome, storage.StartGranted)
	}},
	{"a firing with another run is a duplicate, paused or not", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.pause(jobA)
		c.outcome(s, request("a", 1), storage.StartDuplicate)
		equal(c, "token of the resent request", c.granted(s, r), token)
		c.finished(r, token, jobs.Succeeded)
		c.outcome(s, r, storage.StartDuplicate)
	}},
	{"a pause does not stop further attempts, recoveries and triggers",
		func(c *check) {
			c.recovering("a")
			one, two := c.session("one"), c.session("two")
			tried, lost, byHand := request("a", 1), request("a", 2), request("a", 3)
			byHand.Firing.Key = "k"
			c.finished(tried, c.granted(one, tried), jobs.Waiting)
			c.granted(two, lost)
			c.pause(jobA)
			tried.Attempt = 2
			c.granted(one, tried)
			c.granted(one, byHand)
			c.Expire(two)
			equal(c, "lost", len(c.sweep().Lost), 1)
			equal(c, "adopted while paused", len(c.adopt(one, 10, "a")), 0)
			c.resume(jobA)
			recovery := c.adopt(one, 10, "a")
			equal(c, "adopted when resumed", len(recovery), 1)
			c.pause(jobA)
			c.outcome(one, storage.StartRequest{Run: recovery[0].ID,
				Firing: storage.Firing{Job: "a", ScheduledAt: recovery[0].ScheduledAt,
					Recovery: 1},
				Attempt: 1}, storage.StartPaused)
		}},
	{"any session can adopt a paused waiting run after it is resumed", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		r := c.waiting(one, "a", 1, table("s/t"))
		c.pause(jobA)
		c.outcome(one, r, storage.StartPaused)
		equal(c, "adopted while paused", len(c.adopt(two, 10, "a")), 0)
		c.resume(jobA)
		// The run's session is live, but may no longer fire the job.
		if adopted := c.adopt(two, 10, "a"); len(adopted) != 1 || adopted[0].ID != r.Run {
			c.Errorf("adopted %+v, want the run", adopted)
		}
		equal(c, "adopted by a third", len(c.adopt(c.session("three"), 10, "a")), 0)
	}},
	{"a paused waiting run keeps waiting and blocks no other run", func(c *check) {
		c.register("h", "a", "b")
		s := c.session("one")
		r := c.waiting(s, "a", 1, table("s/t"))
		c.pause(jobA)
		for range 2 {
			c.outcome(s, r, storage.StartPaused)
			record := c.record(r.Run, jobs.Waiting)
			equal(c, "reason", record.Reason, reasons.Paused)
			equal(c, "waits since", record.WaitSince, r.WaitSince)
			if record.Detail == "" || record.BlockedBy != nil {
				c.Errorf("paused run %+v", record)
			}
		}
		b := request("b", 2, table("s/t"))
		c.finished(b, c.granted(s, b), jobs.Succeeded)
		c.resume(jobA)
		c.granted(s, r)
		equal(c, "reason", c.record(r.Run, jobs.Running).Reason, "")
	}},
	{"only triggered waiting runs of a paused job are adopted", func(c *check) {
		c.register("h", "a", "b")
		one, two := c.session("one"), c.session("two")
		scheduled := c.waiting(one, "a", 1)
		other := c.waiting(one, "b", 2)
		triggered, err := c.trigger("a", "k")
		c.must(err)
		c.must(c.Store.End(c.ctx, one))
		c.pause(jobA)
		equal(c, "adopted", ids(c.adopt(two, 10, "a", "b")),
			ids([]storage.Record{{ID: other.Run}, {ID: triggered.ID}}))
		c.granted(two, storage.StartRequest{Run: triggered.ID,
			Firing:  storage.Firing{Job: "a", ScheduledAt: triggered.ScheduledAt, Key: "k"},
			Attempt: 1})
		c.resume(jobA)
		equal(c, "adopted", ids(c.adopt(two, 10, "a", "b")),
			ids([]storage.Record{{ID: scheduled.Run}}))
	}},
	{"runs of a paused job with attempts are adopted from dead sessions", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		r := request("a", 1)
		c.finished(r, c.granted(one, r), jobs.Waiting)
		c.must(c.Store.End(c.ctx, one))
		c.pause(everything)
		adopted := c.adopt(two, 10, "a")
		equal(c, "adopted", len(adopted), 1)
		r.Attempt = adopted[0].Attempt
		c.granted(two, r)
	}},
	{"pauses of a job in a time span include its group's and the cluster's", func(c *check) {
		c.register("h", "a", "b")
		own := c.pause(jobA)
		c.pause(storage.Target{Kind: storage.TargetJob, Name: "b"})
		group, all := c.pause(night), c.pause(everything)
		ended := c.resume(jobA)
		for _, t := range []struct {
			job, group  string
			from, until time.Time
			want        []storage.Pause
		}{
			{"a", "night", own.At, c.now(), []storage.Pause{ended, group, all}},
			{"a", "", own.At, c.now(), []storage.Pause{ended, all}},
			{"c", "night", own.At, c.now(), []storage.Pause{group, all}},
			{"a", "", own.At.Add(-time.Hour), own.At.Add(-time.Second), nil},
			{"a", "", *ended.ResumedAt, c.now().Add(time.Hour), []storage.Pause{all}},
			{"a", "", own.At, own.At, []storage.Pause{ended}},
		} {
			got, err := c.Store.Pauses(c.ctx, t.job, t.group, t.from, t.until)
			c.must(err)
			if diff := cmp.Diff(t.want, got, cmpopts.EquateEmpty()); diff != "" {
				c.Errorf("pauses of %s in %q (-want +got):\n%s", t.job, t.group, diff)
			}
		}
	}},
	{"a trigger of a paused job is refused unless it allows paused jobs", func(c *check) {
		c.register("h", "a")
		c.grouped("g")
		for job, target := range map[string]storage.Target{"a": jobA, "g": night} {
			p := c.pause(target)
			_, err := c.trigger(job, "k")
			var paused *storage.PausedError
			if !errors.As(err, &paused) || !errors.Is(err, storage.ErrPaused) ||
				paused.Pause.ID != p.ID {
				c.Fatalf("trigger of %s: %v, want an error that names the pause", job, err)
			}
			equal(c, "runs", len(c.runs(storage.RunFilter{Job: job})), 0)
			run, err := c.Store.Trigger(c.ctx, action,
				storage.TriggerRequest{Job: job, Key: "k", EvenPaused: true})
			c.must(err)
			again, err := c.trigger(job, "k") // the key's run is there
			c.must(err)
			equal(c, "run", again.ID, run.ID)
		}
	}},
}

// ids returns the runs' ids, sorted.
func ids(records []storage.Record) string {
	var all []string
	for _, r := range records {
		all = append(all, r.ID.String())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
