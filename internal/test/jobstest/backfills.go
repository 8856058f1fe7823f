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
	"github.com/holdfast-dev/holdfast/locking"
)

// backfilling is a backfill of job "a" under test, with its scheduled times.
type backfilling struct {
	id    uuid.UUID
	times []time.Time
}

// pastHours returns n scheduled times, one an hour, which ended an hour ago.
func (c *check) pastHours(n int) []time.Time {
	c.Helper()
	first := c.now().Truncate(time.Hour).Add(-time.Duration(n) * time.Hour)
	times := make([]time.Time, n)
	for i := range times {
		times[i] = first.Add(time.Duration(i) * time.Hour)
	}
	return times
}

// backfillOf requests a backfill of job "a" at these times.
func backfillOf(times []time.Time, parallel int) storage.BackfillRequest {
	return storage.BackfillRequest{Job: "a", From: times[0], To: times[len(times)-1],
		Parallel: parallel, Times: len(times), ScheduleKey: definition("a", "").ScheduleKey()}
}

// overlapping registers job "a", whose runs may overlap.
func (c *check) overlapping() {
	c.Helper()
	d := definition("a", "h")
	d.MayOverlap = true
	_, err := c.Store.Register(c.ctx, c.session("registrar"), []storage.Definition{d})
	c.must(err)
}

// backfill adds a backfill of job "a" at these times.
func (c *check) backfill(times []time.Time, parallel int) backfilling {
	c.Helper()
	b, err := c.Store.AddBackfill(c.ctx, action, backfillOf(times, parallel))
	c.must(err)
	return backfilling{b.ID, times}
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

// runsOf returns the runs of the backfill, the oldest first.
func (c *check) runsOf(b backfilling) []storage.Record {
	c.Helper()
	runs := c.runs(storage.RunFilter{Backfill: b.id})
	slices.SortFunc(runs, func(a, b storage.Record) int {
		return a.ScheduledAt.Compare(b.ScheduledAt)
	})
	return runs
}

// waitingOf adopts the runs of job "a" for the session and returns their start requests, by
// scheduled time.
func (c *check) waitingOf(s uuid.UUID, requests ...locking.Request) []storage.StartRequest {
	c.Helper()
	adopted := c.adopt(s, 10, "a")
	slices.SortFunc(adopted, func(a, b storage.Record) int {
		return a.ScheduledAt.Compare(b.ScheduledAt)
	})
	starts := make([]storage.StartRequest, len(adopted))
	for i, r := range adopted {
		starts[i] = c.startOf(storage.Triggered{Record: r}, requests...)
		starts[i].Firing.Recovery, starts[i].Reserve = r.Recovery, time.Hour
	}
	return starts
}

// open returns the open backfills.
func (c *check) open() []storage.OpenBackfill {
	c.Helper()
	open, err := c.Store.OpenBackfills(c.ctx)
	c.must(err)
	return open
}

// backfillRules are about backfills.
var backfillRules = []rule{
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
	{"a cancel ends a backfill and its waiting runs", func(c *check) {
		c.overlapping()
		s := c.session("one")
		b := c.backfill(c.pastHours(4), 2)
		c.advance(b)
		starts := c.waitingOf(s)
		token := c.granted(s, starts[0])
		cancelled, err := c.Store.CancelBackfill(c.ctx, keyed("k"), b.id)
		c.must(err)
		c.counts(cancelled, storage.BackfillCancelled, 0, 2, 0, 0)
		equal(c, "detail", cancelled.Detail, "cancelled by ann")
		equal(c, "detail of the run", c.record(starts[1].Run, jobs.Cancelled).Detail,
			"its backfill was cancelled by ann")
		again, err := c.Store.CancelBackfill(c.ctx, keyed("k"), b.id)
		c.must(err)
		equal(c, "repeated", again.ID, b.id)
		_, err = c.Store.CancelBackfill(c.ctx, action, b.id)
		c.refused("a second cancel", err, storage.ErrConflict)
		_, err = c.Store.CancelBackfill(c.ctx, action, uuid.New())
		c.refused("a cancel of an unknown backfill", err, storage.ErrNotFound)
		equal(c, "open", len(c.open()), 1)
		c.counts(c.advance(b), storage.BackfillCancelled, 0, 2, 0, 1)
		c.finished(starts[0], token, jobs.Succeeded)
		c.counts(c.advance(b), storage.BackfillCancelled, 0, 2, 1, 1)
		equal(c, "open after its last run", len(c.open()), 0)
		entries := c.audit(storage.AuditFilter{Action: "cancel_backfill"})
		if len(entries) != 1 || entries[0].Target != "backfill "+b.id.String() {
			c.Errorf("audit entries %+v", entries)
		}
	}},
	{"a request is accepted once, with an audit entry", func(c *check) {
		c.register("h", "a")
		times := c.pastHours(2)
		r := backfillOf(times, 1)
		by := keyed("k")
		by.Reason = "new prices"
		first, err := c.Store.AddBackfill(c.ctx, by, r)
		c.must(err)
		if first.Job != "a" || !first.From.Equal(times[0]) || !first.To.Equal(times[1]) ||
			first.Parallel != 1 || first.CreatedBy != "ann" || first.Reason != "new prices" ||
			first.Times != 2 {
			c.Errorf("added %+v", first)
		}
		again, err := c.Store.AddBackfill(c.ctx, by, r)
		c.must(err)
		if !reflect.DeepEqual(again, first) {
			c.Errorf("repeated: %+v, want %+v", again, first)
		}
		r.To = times[0]
		_, err = c.Store.AddBackfill(c.ctx, by, r)
		c.refused("another range with the key", err, storage.ErrKeyUsed)
		_, err = c.Store.AddBackfill(c.ctx, action, r)
		c.refused("a second backfill of the job", err, storage.ErrConflict)
		if !strings.Contains(fmt.Sprint(err), first.ID.String()) {
			c.Errorf("got %v, want the id of the active backfill", err)
		}
		entries := c.audit(storage.AuditFilter{Action: "backfill"})
		if len(entries) != 1 || entries[0].Target != "job a" ||
			entries[0].Reason != "new prices" ||
			!strings.Contains(string(entries[0].Detail), first.ID.String()) {
			c.Errorf("audit entries %+v", entries)
		}
		_, err = c.Store.CancelBackfill(c.ctx, action, first.ID)
		c.must(err)
		second, err := c.Store.AddBackfill(c.ctx, action, r)
		c.must(err)
		c.backfillLists(second.ID, first.ID)
	}},
	{"backfills are listed in pages, forward and backward", func(c *check) {
		c.register("h", "a")
		times, ids := c.pastHours(1), []uuid.UUID{}
		for range 5 {
			if len(ids) > 0 {
				_, err := c.Store.CancelBackfill(c.ctx, action, ids[0])
				c.must(err)
			}
			ids = slices.Insert(ids, 0, c.backfill(times, 1).id)
		}
		c.backfillPages(storage.BackfillFilter{}, ids...)
		c.backfillPages(storage.BackfillFilter{Ended: true}, ids[1:]...)
		c.backfillPages(storage.BackfillFilter{State: storage.BackfillActive}, ids[0])
		c.backfillPages(storage.BackfillFilter{State: storage.BackfillActive, Ended: true})
		c.backfillPages(storage.BackfillFilter{Job: "b"})
	}},
	{"runs are selected by their backfill", func(c *check) {
		c.overlapping()
		s, times := c.session("one"), c.pastHours(3)
		other := c.backfill(times, 1)
		c.advance(other)
		_, err := c.Store.CancelBackfill(c.ctx, action, other.id)
		c.must(err)
		scheduled := request("a", 1)
		c.finished(scheduled, c.granted(s, scheduled), jobs.Succeeded)
		b := c.backfill(times, 3)
		c.advance(b)
		starts := c.waitingOf(s)
		c.finished(starts[0], c.granted(s, starts[0]), jobs.Failed)
		c.granted(s, starts[1])
		selected := func(f storage.RunFilter, want ...uuid.UUID) {
			c.Helper()
			f.Backfill = b.id
			c.sameRuns(f, want...)
		}
		failed, running, waiting := starts[0].Run, starts[1].Run, starts[2].Run
		selected(storage.RunFilter{}, failed, running, waiting)
		selected(storage.RunFilter{Job: "a"}, failed, running, waiting)
		selected(storage.RunFilter{Job: "b"})
		selected(storage.RunFilter{States: []jobs.State{jobs.Failed}}, failed)
		selected(storage.RunFilter{States: []jobs.State{jobs.Running, jobs.Waiting}}, running,
			waiting)
		selected(storage.RunFilter{Reason: reasons.Backfill}, waiting)
		all := c.runs(storage.RunFilter{Backfill: b.id})
		selected(storage.RunFilter{Before: cursorOf(all[0])}, all[1].ID, all[2].ID)
		selected(storage.RunFilter{After: cursorOf(all[2]), Limit: 1}, all[1].ID)
	}},
	{"an invalid request is refused", func(c *check) {
		c.register("h", "a")
		times := c.pastHours(2)
		for what, change := range map[string]func(r *storage.BackfillRequest){
			"no job":              func(r *storage.BackfillRequest) { r.Job = "" },
			"a future end":        func(r *storage.BackfillRequest) { r.To = c.now().Add(time.Hour) },
			"an end before":       func(r *storage.BackfillRequest) { r.From = r.To.Add(time.Second) },
			"no parallel runs":    func(r *storage.BackfillRequest) { r.Parallel = 0 },
			"too many at once":    func(r *storage.BackfillRequest) { r.Parallel = 101 },
			"parallel exclusion":  func(r *storage.BackfillRequest) { r.Parallel = 2 },
			"no times":            func(r *storage.BackfillRequest) { r.Times = 0 },
			"too many times":      func(r *storage.BackfillRequest) { r.Times = 10_001 },
			"a year before times": func(r *storage.BackfillRequest) { r.From = time.Time{} },
		} {
			r := backfillOf(times, 1)
			change(&r)
			_, err := c.Store.AddBackfill(c.ctx, action, r)
			want := storage.ErrBadInput
			if r.Job == "" {
				want = storage.ErrNotFound // no job has the name
			}
			c.refused(what, err, want)
		}
		r := backfillOf(times, 1)
		r.ScheduleKey = "UTC @daily"
		_, err := c.Store.AddBackfill(c.ctx, action, r)
		c.refused("another schedule", err, storage.ErrConflict)
		r.Job = "unknown"
		_, err = c.Store.AddBackfill(c.ctx, action, r)
		c.refused("an unknown job", err, storage.ErrNotFound)
		_, err = c.Store.Backfill(c.ctx, uuid.New())
		c.refused("an unknown backfill", err, storage.ErrNotFound)
		_, err = c.Store.AdvanceBackfill(c.ctx, storage.BackfillStep{Backfill: uuid.New()})
		c.refused("a step of an unknown backfill", err, storage.ErrNotFound)
		c.backfillLists()
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
	{"a run of a backfill waits behind younger waiters, and none waits behind it", func(c *check) {
		c.register("h", "a", "b", "holder")
		s, one := c.session("one"), c.session("two")
		holder := request("holder", 1, table("s/t"))
		token := c.granted(one, holder)
		b := c.backfill(c.pastHours(1), 1)
		c.advance(b)
		run := c.waitingOf(s, table("s/t"))[0]
		c.blocked(s, run, reasons.LockHeld, holder)
		younger := request("b", 1, table("s/t"))
		younger.WaitSince = c.now().Add(time.Minute)
		c.blocked(one, younger, reasons.LockHeld, holder)
		own := request("a", 1, ownName("a"))
		own.WaitSince = c.now().Add(time.Minute)
		ownToken := c.granted(one, own)
		c.finished(holder, token, jobs.Succeeded)
		c.blocked(s, run, reasons.Overlap, own)
		c.finished(own, ownToken, jobs.Succeeded)
		c.blocked(s, run, reasons.OlderWaiter, younger)
		youngerToken := c.granted(one, younger)
		c.note(s, noteOf(run, jobs.Waiting, reasons.NoWorker))
		next := request("b", 2, table("s/t"))
		next.WaitSince = c.now().Add(2 * time.Minute)
		c.finished(younger, youngerToken, jobs.Succeeded)
		c.finished(next, c.granted(one, next), jobs.Succeeded)
		c.granted(s, run)
	}},
	{"a start says whether a run of a backfill blocks it", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		b := c.backfill(c.pastHours(1), 1)
		c.advance(b)
		run := c.waitingOf(s)[0]
		token := c.granted(s, run)
		scheduled := request("a", 1, ownName("a"))
		for range 2 {
			result := c.start(s, scheduled)[0]
			if result.Outcome != storage.StartBlocked || !result.Backfill || result.Queued ||
				result.Reason != reasons.Overlap {
				c.Errorf("start %+v, want blocked by a backfill", result)
			}
		}
		c.finished(run, token, jobs.Succeeded)
		c.granted(s, scheduled)
		if result := c.start(s, request("a", 2, ownName("a")))[0]; result.Backfill {
			c.Errorf("start %+v, want blocked by a scheduled run", result)
		}
	}},
	{"runs of backfills are adopted as late runs, after other late runs", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		b := c.backfill(c.pastHours(1), 1)
		c.advance(b)
		late := request("a", 1)
		late.WaitSince = c.now()
		gone := c.session("gone")
		c.note(gone, noteOf(late, jobs.Waiting, reasons.LockHeld))
		c.must(c.Store.End(c.ctx, gone))
		ask := Adoption(nil, 10, "a")
		ask.Jobs[0].Threshold, ask.Late = time.Minute, 0
		adopted, err := c.Store.Adopt(c.ctx, s, ask)
		c.must(err)
		equal(c, "adopted without slots", len(adopted), 0)
		ask.Late = 1
		for _, want := range []uuid.UUID{late.Run, c.runsOf(b)[0].ID} {
			adopted, err = c.Store.Adopt(c.ctx, s, ask)
			c.must(err)
			if len(adopted) != 1 || adopted[0].ID != want {
				c.Fatalf("adopted %+v, want run %s", adopted, want)
			}
			ask.Known = append(ask.Known, want)
		}
		equal(c, "backfill", adopted[0].Backfill, b.id)
	}},
	{"the recovery of a lost run belongs to the backfill", func(c *check) {
		c.recovering("a")
		s := c.session("one")
		b := c.backfill(c.pastHours(1), 1)
		c.advance(b)
		c.granted(s, c.waitingOf(s)[0])
		c.Expire(s)
		c.sweep()
		c.counts(c.advance(b), storage.BackfillActive, 0, 1, 0, 0)
		runs := c.runsOf(b)
		if len(runs) != 2 || runs[0].Recovery+runs[1].Recovery != 1 {
			c.Fatalf("runs %+v, want a lost one and its recovery", runs)
		}
		other := c.session("two")
		recovery := c.waitingOf(other)[0]
		equal(c, "recovery", recovery.Firing.Recovery, 1)
		c.finished(recovery, c.granted(other, recovery), jobs.Succeeded)
		c.counts(c.advance(b), storage.BackfillCompleted, 0, 1, 1, 0)
	}},
	{"a success of a backfill is a previous success", func(c *check) {
		c.register("h", "a")
		s, times := c.session("one"), c.pastHours(1)
		c.advance(c.backfill(times, 1))
		run := c.waitingOf(s)[0]
		c.previous(c.now(), time.Time{})
		c.finished(run, c.granted(s, run), jobs.Succeeded)
		c.previous(c.now(), times[0])
		c.previous(times[0], time.Time{})
	}},
	{"the start delay of a run counts from its creation", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		c.advance(c.backfill(c.pastHours(3), 1))
		run := c.waitingOf(s)[0]
		c.finished(run, c.granted(s, run), jobs.Succeeded)
		c.sweep()
		c.sameHistogram()
	}},
	{"the retention of runs of triggers is not that of runs of backfills", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		b := c.backfill(c.pastHours(3), 1)
		for range 2 {
			c.advance(b)
			run := c.waitingOf(s)[0]
			c.finished(run, c.granted(s, run), jobs.Succeeded)
		}
		equal(c, "runs", c.prune(s,
			storage.PruneRequest{Keep: atOnce, Triggered: true, Limit: 10}).Runs, 0)
	}},
	{"pruning deletes ended backfills", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		times := c.pastHours(1)
		ended := c.backfill(times, 1)
		_, err := c.Store.CancelBackfill(c.ctx, action, ended.id)
		c.must(err)
		active := c.backfill(times, 1)
		c.prune(s, storage.PruneRequest{Keep: time.Hour, Limit: 10})
		c.backfillLists(active.id, ended.id)
		c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10})
		c.backfillLists(active.id)
		c.advance(active)
		run := c.waitingOf(s)[0]
		token := c.granted(s, run)
		_, err = c.Store.CancelBackfill(c.ctx, action, active.id)
		c.must(err)
		c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10})
		c.backfillLists(active.id)
		c.finished(run, token, jobs.Succeeded)
		c.advance(active)
		c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10})
		c.backfillLists()
	}},
}

// backfillPages fails the test unless the filter selects these backfills, and its pages of two have
// them forward and backward.
func (c *check) backfillPages(f storage.BackfillFilter, want ...uuid.UUID) {
	c.Helper()
	page := func() (ids []uuid.UUID, first, last *storage.RunCursor) {
		found, err := c.Store.Backfills(c.ctx, f)
		c.must(err)
		if len(found) > f.Limit {
			c.Fatalf("page of %d backfills, want at most %d", len(found), f.Limit)
		}
		for i, b := range found {
			last = &storage.RunCursor{CreatedAt: b.CreatedAt, ID: b.ID}
			if ids = append(ids, b.ID); i == 0 {
				first = last
			}
		}
		return ids, first, last
	}
	what := fmt.Sprintf("by %+v", f)
	var forth, back []uuid.UUID
	f.Limit = 2
	for ids, _, last := page(); len(ids) > 0; ids, _, last = page() {
		forth, f.Before = append(forth, ids...), last
	}
	f.Before, f.After = nil, &storage.RunCursor{CreatedAt: time.Unix(0, 0)}
	for ids, first, _ := page(); len(ids) > 0; ids, first, _ = page() {
		back, f.After = slices.Concat(ids, back), first
	}
	equal(c, what+", pages forward", fmt.Sprint(forth), fmt.Sprint(want))
	equal(c, what+", pages backward", fmt.Sprint(back), fmt.Sprint(want))
}

// backfillLists fails the test unless the list has exactly these backfills.
func (c *check) backfillLists(want ...uuid.UUID) {
	c.Helper()
	found, err := c.Store.Backfills(c.ctx, storage.BackfillFilter{})
	c.must(err)
	if len(found) != len(want) {
		c.Fatalf("backfills %+v, want %v", found, want)
	}
	for i, b := range found {
		equal(c, "backfill", b.ID, want[i])
		for filter, matches := range map[storage.BackfillFilter]bool{
			{Job: "a", State: b.State}: true, {Job: "b"}: false, {State: "none"}: false} {
			some, err := c.Store.Backfills(c.ctx, filter)
			c.must(err)
			equal(c, fmt.Sprintf("matches %+v", filter),
				slices.ContainsFunc(some, func(o storage.Backfill) bool { return o.ID == b.ID }),
				matches)
		}
	}
}
