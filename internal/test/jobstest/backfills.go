package jobstest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
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

// backfillRules are about requests, lists and ends of backfills.
var backfillRules = []rule{
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
