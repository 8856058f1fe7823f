package jobstest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// backfillStepRules are about the steps that add the runs of a backfill.
var backfillStepRules = []rule{
	{"a backfill adds runs at its scheduled times until all have ended", func(c *check) {
		c.register("h", "a")
		s, times := c.session("one"), c.pastHours(3)
		before := c.now()
		b := c.backfill(times, 1)
		equal(c, "runs at once", len(c.runsOf(b)), 0)
		for i, at := range times {
			c.counts(c.advance(b), storage.BackfillActive, 0, i+1, max(0, i), 0)
			c.counts(c.advance(b), storage.BackfillActive, 0, i+1, max(0, i), 0)
			runs := c.runsOf(b)
			r := runs[len(runs)-1]
			if r.Job != "a" || !r.ScheduledAt.Equal(at) || r.State != jobs.Waiting ||
				r.Reason != reasons.Backfill || r.Backfill != b.id ||
				r.Key != storage.BackfillKey(b.id, at) ||
				r.Detail != "backfilled by ann" {
				c.Errorf("run %+v, want one at %s", r, at)
			}
			within(c, "created at", r.CreatedAt, before, c.now())
			starts := c.waitingOf(s)
			if len(starts) != 1 || starts[0].Run != r.ID {
				c.Fatalf("adopted %+v, want run %s", starts, r.ID)
			}
			equal(c, "ended runs", c.open()[0].Ended, 0)
			c.finished(starts[0], c.granted(s, starts[0]), jobs.Succeeded)
			equal(c, "ended runs", c.open()[0].Ended, 1)
		}
		after := c.advance(b)
		c.counts(after, storage.BackfillCompleted, 0, 3, 3, 0)
		within(c, "ended at", *after.EndedAt, before, c.now())
		equal(c, "open", len(c.open()), 0)
		c.counts(c.advance(b), storage.BackfillCompleted, 0, 3, 3, 0)
	}},
	{"at most parallel runs of a backfill have not ended", func(c *check) {
		c.overlapping()
		s, b := c.session("one"), c.backfill(c.pastHours(5), 2)
		c.counts(c.advance(b), storage.BackfillActive, 0, 2, 0, 0)
		starts := c.waitingOf(s)
		c.finished(starts[1], c.granted(s, starts[1]), jobs.Failed)
		c.counts(c.advance(b), storage.BackfillActive, 0, 3, 0, 1)
		starts = append(starts, c.waitingOf(s)...)
		for _, i := range []int{0, 2} {
			c.finished(starts[i], c.granted(s, starts[i]), jobs.Succeeded)
		}
		c.counts(c.advance(b), storage.BackfillActive, 0, 5, 2, 1)
	}},
	{"a backfill leaves out times with a run that succeeded or is active", func(c *check) {
		c.register("h", "a")
		s, times := c.session("one"), c.pastHours(6)
		start := func(i int) storage.StartRequest {
			r := request("a", i)
			r.Firing.ScheduledAt = times[i]
			return r
		}
		first, failed, running := start(0), start(1), start(2)
		c.finished(first, c.granted(s, first), jobs.Succeeded)
		c.finished(failed, c.granted(s, failed), jobs.Failed)
		c.granted(s, running)
		c.asked(storage.TriggerRequest{Job: "a", At: times[3]})
		c.asked(storage.TriggerRequest{Job: "a", At: times[4], Params: []byte(`{"other": 1}`)})
		b := c.backfill(times, 1)
		taken, err := c.Store.BackfillTaken(c.ctx, "a", times[0], times[5])
		c.must(err)
		var got []string
		for _, o := range taken {
			got = append(got, fmt.Sprint(o.ScheduledAt.Sub(times[0]), " ", o.State))
		}
		equal(c, "taken", strings.Join(got, ", "),
			"0s succeeded, 2h0m0s running, 3h0m0s waiting")
		if inside, err := c.Store.BackfillTaken(c.ctx, "a", times[1],
			times[2]); err != nil || len(inside) != 1 || inside[0].Run != running.Run {
			c.Errorf("taken in a part of the range: %+v, %v", inside, err)
		}
		c.counts(c.advance(b), storage.BackfillActive, 3, 1, 0, 0)
		for i, want := range [][4]int{{3, 2, 1, 0}, {3, 3, 2, 0}} {
			starts := slices.DeleteFunc(c.waitingOf(s), func(r storage.StartRequest) bool {
				return !strings.HasPrefix(r.Firing.Key, "backfill ")
			})
			if len(starts) != 1 {
				c.Fatalf("adopted %+v, want one run of the backfill", starts)
			}
			starts[0].Requests = nil
			c.finished(starts[0], c.granted(s, starts[0]), jobs.Succeeded)
			c.counts(c.advance(b), storage.BackfillActive, want[0], want[1], want[2], want[3])
			equal(c, "time", c.runsOf(b)[i+1].ScheduledAt, times[4+i])
		}
	}},
	{"a repeated or concurrent step adds nothing", func(c *check) {
		c.overlapping()
		b := c.backfill(c.pastHours(8), 3)
		step := c.stepOf(b)
		first, err := c.Store.AdvanceBackfill(c.ctx, step)
		c.must(err)
		again, err := c.Second().AdvanceBackfill(c.ctx, step)
		c.must(err)
		if !reflect.DeepEqual(again, first) || first.Runs != 3 {
			c.Errorf("repeated: %+v, want %+v with 3 runs", again, first)
		}
		s := c.session("one")
		for _, r := range c.waitingOf(s) {
			r.Requests = nil
			c.finished(r, c.granted(s, r), jobs.Succeeded)
		}
		var all sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			store := c.Store
			if i%2 == 1 {
				store = c.Second()
			}
			next := c.stepOf(b)
			all.Go(func() { _, errs[i] = store.AdvanceBackfill(c.ctx, next) })
		}
		all.Wait()
		c.must(errors.Join(errs...))
		c.counts(c.advance(b), storage.BackfillActive, 0, 6, 3, 0)
		equal(c, "runs", len(c.runsOf(b)), 6)
	}},
	{"a backfill waits for the misfire policy", func(c *check) {
		c.register("h", "a")
		c.Pass(150 * time.Minute)
		s, times := c.session("one"), c.pastHours(4)
		b := c.backfill(times, 1)
		undecided := slices.IndexFunc(times, func(at time.Time) bool {
			return at.After(c.versions()["a"].CheckedUntil)
		})
		for range undecided {
			c.advance(b)
			r := c.waitingOf(s)[0]
			c.finished(r, c.granted(s, r), jobs.Succeeded)
		}
		c.counts(c.advance(b), storage.BackfillActive, 0, undecided, undecided, 0)
		c.check(c.now())
		c.counts(c.advance(b), storage.BackfillActive, 0, undecided+1, undecided, 0)
	}},
	{"a time whose scheduled run failed needs no decision", func(c *check) {
		c.register("h", "a")
		c.Pass(3 * time.Hour)
		s, times := c.session("one"), c.pastHours(1)
		failed := request("a", 0)
		failed.Firing.ScheduledAt = times[0]
		c.finished(failed, c.granted(s, failed), jobs.Failed)
		c.counts(c.advance(c.backfill(times, 1)), storage.BackfillActive, 0, 1, 0, 0)
	}},
	{"a pause holds a backfill and its waiting runs back", func(c *check) {
		c.overlapping()
		s := c.session("one")
		b := c.backfill(c.pastHours(3), 2)
		c.advance(b)
		adopted := c.waitingOf(s)[0]
		_, err := c.Store.Pause(c.ctx, action, jobA)
		c.must(err)
		c.outcome(s, adopted, storage.StartPaused)
		equal(c, "reason", c.record(adopted.Run, jobs.Waiting).Reason, reasons.Paused)
		equal(c, "adopted while paused", len(c.adoptKnowing(c.session("two"), nil, 10, "a")), 0)
		_, err = c.Store.Cancel(c.ctx, action, c.runsOf(b)[1].ID)
		c.must(err)
		c.counts(c.advance(b), storage.BackfillActive, 0, 2, 0, 1)
		_, err = c.Store.Resume(c.ctx, action, jobA)
		c.must(err)
		c.counts(c.advance(b), storage.BackfillActive, 0, 3, 0, 1)
		equal(c, "adopted after the pause", len(c.adoptKnowing(s, nil, 10, "a")), 2)
		c.granted(s, adopted)
	}},
	{"a backfill stops when its job has another schedule", func(c *check) {
		c.register("h", "a")
		b := c.backfill(c.pastHours(2), 1)
		c.advance(b)
		other := definition("a", "same times")
		other.Handler = "other"
		_, err := c.Store.Register(c.ctx, c.session("next"), []storage.Definition{other})
		c.must(err)
		c.counts(c.advance(b), storage.BackfillActive, 0, 1, 0, 0)
		other = definition("a", "other times")
		other.Schedule = "@daily"
		_, err = c.Store.Register(c.ctx, c.session("last"), []storage.Definition{other})
		c.must(err)
		after := c.advance(b)
		c.counts(after, storage.BackfillStopped, 0, 1, 0, 0)
		equal(c, "detail", after.Detail, storage.BackfillScheduleChanged)
	}},
	{"a backfill stops when its job is removed", func(c *check) {
		spec := c.put("a", 0)
		s := c.session("one")
		c.registerAdded(s, "h", "a")
		b := c.backfill(c.pastHours(2), 1)
		c.advance(b)
		c.must(c.Store.RemoveSpec(c.ctx, action, "a", spec.Version))
		after := c.advance(b)
		c.counts(after, storage.BackfillStopped, 0, 1, 0, 1)
		equal(c, "detail", after.Detail, storage.BackfillJobRemoved)
	}},
	{"a backfill stops when its job was absent for long", func(c *check) {
		other := c.sessionWith("h", "b")
		deathOf(c, c.sessionWith("h", "a"))
		b := c.backfill(c.pastHours(2), 1)
		c.counts(c.advance(b), storage.BackfillActive, 0, 1, 0, 0)
		c.Pass(storage.MaxAbsence + time.Hour)
		c.definitions(other)
		c.sweep()
		after := c.advance(b)
		c.counts(after, storage.BackfillStopped, 0, 1, 0, 1)
		equal(c, "detail", after.Detail, storage.JobGoneDetail)
	}},
	{"a step by another definition adds nothing", func(c *check) {
		c.register("h", "a")
		b := c.backfill(c.pastHours(2), 1)
		for _, version := range []int64{0, 7} {
			step := c.stepOf(b)
			step.Version = version
			after, err := c.Store.AdvanceBackfill(c.ctx, step)
			c.must(err)
			c.counts(after, storage.BackfillActive, 0, 0, 0, 0)
		}
	}},
}

// stepOf returns the next step of the backfill.
func (c *check) stepOf(b backfilling) storage.BackfillStep {
	c.Helper()
	now, err := c.Store.Backfill(c.ctx, b.id)
	c.must(err)
	step := storage.BackfillStep{Backfill: b.id, Version: c.versions()["a"].Version,
		After: now.HandledUntil, Last: true}
	for _, at := range b.times {
		if at.After(now.HandledUntil) {
			step.Times = append(step.Times, storage.BackfillTime{ScheduledAt: at,
				Run: uuid.Must(uuid.NewV7())})
		}
	}
	return step
}

// advance advances the backfill.
func (c *check) advance(b backfilling) storage.Backfill {
	c.Helper()
	after, err := c.Store.AdvanceBackfill(c.ctx, c.stepOf(b))
	c.must(err)
	stored, err := c.Store.Backfill(c.ctx, b.id)
	c.must(err)
	if !reflect.DeepEqual(after, stored) {
		c.Errorf("advanced to %+v, stored is %+v", after, stored)
	}
	return after
}

// counts fails the test unless the backfill has these counts.
func (c *check) counts(b storage.Backfill, state storage.BackfillState, leftOut, runs, succeeded,
	unsuccessful int) {
	c.Helper()
	if b.State != state || b.LeftOut != leftOut || b.Runs != runs || b.Succeeded != succeeded ||
		b.Unsuccessful != unsuccessful {
		c.Fatalf("backfill %+v, want %s with %d left out, %d runs, %d succeeded, %d unsuccessful",
			b, state, leftOut, runs, succeeded, unsuccessful)
	}
	if ended := b.State != storage.BackfillActive; ended != (b.EndedAt != nil) {
		c.Errorf("backfill %+v ended at %v", b, b.EndedAt)
	}
}

// open returns the open backfills.
func (c *check) open() []storage.OpenBackfill {
	c.Helper()
	open, err := c.Store.OpenBackfills(c.ctx)
	c.must(err)
	return open
}
