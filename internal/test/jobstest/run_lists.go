package jobstest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// runListRules are about lists of runs.
var runListRules = []rule{
	{"runs are filtered by reason, with and without states", func(c *check) {
		s := c.session("one")
		skipped, missed := noteOf(request("a", 11), jobs.Skipped, reasons.LockHeld),
			noteOf(request("a", 12), jobs.Skipped, reasons.Overlap)
		waits := request("b", 3, table("s/t"))
		c.note(s, skipped)
		c.note(s, missed)
		c.note(s, noteOf(waits, jobs.Waiting, reasons.LockHeld))
		c.pastRuns(2)
		for _, f := range []struct {
			filter storage.RunFilter
			want   []uuid.UUID
		}{
			{storage.RunFilter{Reason: reasons.LockHeld}, []uuid.UUID{skipped.Run, waits.Run}},
			{storage.RunFilter{Reason: reasons.Overlap}, []uuid.UUID{missed.Run}},
			{storage.RunFilter{Reason: reasons.Panic}, nil},
			{storage.RunFilter{Reason: reasons.LockHeld, States: []jobs.State{jobs.Skipped}},
				[]uuid.UUID{skipped.Run}},
			{storage.RunFilter{Reason: reasons.LockHeld, States: []jobs.State{jobs.Waiting}},
				[]uuid.UUID{waits.Run}},
			{storage.RunFilter{Reason: reasons.LockHeld,
				States: []jobs.State{jobs.Failed, jobs.Missed, jobs.Succeeded}}, nil},
			{storage.RunFilter{Reason: reasons.LockHeld, Job: "b"}, []uuid.UUID{waits.Run}},
		} {
			c.sameRuns(f.filter, f.want...)
		}
	}},
	{"runs are filtered by a text in their errors", func(c *check) {
		c.defined("h", map[string][]locking.Request{"a": {table("s/a")}, "b": {table("s/b")}})
		s := c.session("one")
		failed := func(job string, n int, state jobs.State, text string) uuid.UUID {
			r := request(job, n)
			done, err := c.Store.Finish(c.ctx, []storage.FinishRequest{{Run: r.Run,
				Token: c.granted(s, r), State: state, Error: text}})
			c.must(err)
			equal(c, "finished", len(done) == 1 && done[0], true)
			return r.Run
		}
		refused := failed("a", 11, jobs.Failed, "dial tcp 10.0.3.40:5432: Connection refused")
		late := failed("b", 12, jobs.TimedOut, "after 100%_of its timeout: connection refused")
		other := failed("a", 13, jobs.Failed, "100 rows of its table")
		c.pastRuns(2)
		to := table("s/b").Resource
		for _, f := range []struct {
			filter storage.RunFilter
			want   []uuid.UUID
		}{
			{storage.RunFilter{Error: "connection REFUSED"}, []uuid.UUID{refused, late}},
			{storage.RunFilter{Error: "connection refused", Limit: 1}, []uuid.UUID{late}},
			{storage.RunFilter{Error: "100%_"}, []uuid.UUID{late}},
			{storage.RunFilter{Error: "100"}, []uuid.UUID{late, other}},
			{storage.RunFilter{Error: "dial", Job: "b"}, nil},
			{storage.RunFilter{Error: "refused", JobPrefix: "a"}, []uuid.UUID{refused}},
			{storage.RunFilter{Error: "refused", Resource: &to}, []uuid.UUID{late}},
			{storage.RunFilter{Error: "refused", States: []jobs.State{jobs.TimedOut}},
				[]uuid.UUID{late}},
			{storage.RunFilter{Error: "refused", States: []jobs.State{jobs.Succeeded}}, nil},
			{storage.RunFilter{Error: "no such text"}, nil},
		} {
			c.sameRuns(f.filter, f.want...)
		}
	}},
	{"runs are filtered by creation time", func(c *check) {
		ids := c.pastRuns(6)
		at := make([]time.Time, len(ids))
		for i, id := range ids {
			at[i] = c.record(id, jobs.Succeeded).CreatedAt
		}
		c.sameRuns(storage.RunFilter{From: at[2]}, ids[2:]...)
		c.sameRuns(storage.RunFilter{Until: at[2]}, ids[:2]...)
		c.sameRuns(storage.RunFilter{From: at[1], Until: at[4], Job: "a"}, ids[1:4]...)
		c.sameRuns(storage.RunFilter{From: at[1], Until: at[4],
			States: []jobs.State{jobs.Succeeded}},
			ids[1:4]...)
		c.sameRuns(storage.RunFilter{From: at[5].Add(time.Microsecond)})
	}},
	{"runs are filtered by the resources of their jobs and related resources", func(c *check) {
		c.defined("h", map[string][]locking.Request{
			"orders": {table("s/orders"), ownName("orders")}, "schema": {table("s")},
			"part":  {shared("s/orders/2026")},
			"other": {table("s/others")}, "path": {path("s/orders")}, "api": {slot("api", 4)},
			"none": nil,
		})
		s := c.session("one")
		runs := make(map[string]uuid.UUID)
		for i, job := range []string{"orders", "schema", "part", "other", "path", "api", "none",
			"unknown"} {
			n := noteOf(request(job, i), jobs.Skipped, reasons.LockHeld)
			c.note(s, n)
			runs[job] = n.Run
		}
		waits := request("orders", 20, table("s/orders"))
		c.note(s, noteOf(waits, jobs.Waiting, reasons.LockHeld))
		resource := func(r locking.Request) *locking.Resource { return &r.Resource }
		c.sameRuns(storage.RunFilter{Resource: resource(table("s/orders"))}, runs["orders"],
			runs["schema"], runs["part"], waits.Run)
		c.sameRuns(storage.RunFilter{Resource: resource(table("s"))}, runs["orders"],
			runs["schema"],
			runs["part"], runs["other"], waits.Run)
		c.sameRuns(storage.RunFilter{Resource: resource(table("s/orders/2026"))}, runs["orders"],
			runs["schema"], runs["part"], waits.Run)
		c.sameRuns(storage.RunFilter{Resource: resource(slot("api", 4))}, runs["api"])
		c.sameRuns(storage.RunFilter{Resource: resource(table("s/orders_old"))}, runs["schema"])
		c.sameRuns(storage.RunFilter{Resource: resource(table("t"))})
		c.sameRuns(storage.RunFilter{Resource: resource(table("s/orders")),
			States: []jobs.State{jobs.Waiting}}, waits.Run)
		c.sameRuns(storage.RunFilter{Resource: resource(table("s/orders")),
			States: []jobs.State{jobs.Skipped, jobs.Waiting},
			Job:    "orders"}, runs["orders"], waits.Run)
		c.sameRuns(storage.RunFilter{Resource: resource(table("s")), Reason: reasons.LockHeld,
			States: []jobs.State{jobs.Skipped}},
			runs["orders"], runs["schema"], runs["part"], runs["other"])
		equal(c, "runs of a page",
			len(c.runs(storage.RunFilter{Resource: resource(table("s")), Limit: 2})), 2)
	}},
	{"runs are filtered by the group and by a prefix of their jobs", func(c *check) {
		c.inGroups(map[string]string{"etl/a": "night", "etl/b": "day", "etl%": "night",
			"etl": "night", "ETL/c": ""})
		s := c.session("one")
		runs := make(map[string]uuid.UUID)
		for i, job := range []string{"etl/a", "etl/b", "etl%", "etl", "ETL/c"} {
			n := noteOf(request(job, i), jobs.Skipped, reasons.LockHeld)
			c.note(s, n)
			runs[job] = n.Run
		}
		waits := request("etl/b", 20, table("s/t"))
		c.note(s, noteOf(waits, jobs.Waiting, reasons.LockHeld))
		skipped := []jobs.State{jobs.Skipped}
		c.sameRuns(storage.RunFilter{JobPrefix: "etl/"}, runs["etl/a"], runs["etl/b"], waits.Run)
		c.sameRuns(storage.RunFilter{JobPrefix: "etl/", States: skipped}, runs["etl/a"],
			runs["etl/b"])
		c.sameRuns(storage.RunFilter{JobPrefix: "etl"}, runs["etl/a"], runs["etl/b"],
			runs["etl%"], runs["etl"], waits.Run)
		c.sameRuns(storage.RunFilter{JobPrefix: "etl%"}, runs["etl%"])
		c.sameRuns(storage.RunFilter{JobPrefix: "etl_"})
		c.sameRuns(storage.RunFilter{JobPrefix: "tl"})
		c.sameRuns(storage.RunFilter{Group: "night"}, runs["etl/a"], runs["etl%"], runs["etl"])
		c.sameRuns(storage.RunFilter{Group: "nigh"})
		c.sameRuns(storage.RunFilter{Group: "day", States: []jobs.State{jobs.Waiting}}, waits.Run)
		c.sameRuns(storage.RunFilter{Group: "day", Reason: reasons.LockHeld}, runs["etl/b"],
			waits.Run)
		c.sameRuns(storage.RunFilter{Group: "night", JobPrefix: "etl/"}, runs["etl/a"])
		c.sameRuns(storage.RunFilter{Group: "night", Job: "etl"}, runs["etl"])
		c.sameRuns(storage.RunFilter{Group: "night", Job: "etl/b"})
		resource := table("s/t").Resource
		c.sameRuns(storage.RunFilter{Group: "night", Resource: &resource})
		equal(c, "runs of a page", len(c.runs(storage.RunFilter{JobPrefix: "etl", Limit: 2})), 2)
	}},
	{"pages of runs are the same backward and forward", func(c *check) {
		s := c.session("one")
		for n := range 3 { // many have the same creation time
			requests := make([]storage.StartRequest, 20)
			for i := range requests {
				requests[i] = request("a", 20*n+i)
			}
			c.start(s, requests...)
		}
		c.defined("h", map[string][]locking.Request{"a": {table("s/t")}})
		wanted := table("s/t").Resource
		for _, f := range []storage.RunFilter{{}, {Job: "a"},
			{States: []jobs.State{jobs.Running, jobs.Waiting}}, {Resource: &wanted},
			{JobPrefix: "a"}} {
			whole := f
			whole.Limit = 100
			all := c.runs(whole)
			equal(c, "runs", len(all), 60)
			var paged []storage.Record
			last := all[len(all)-1]
			f.Limit, f.After = 7, cursorOf(last)
			for page := c.runs(f); len(page) > 0; page = c.runs(f) {
				paged = slices.Concat(page, paged)
				f.After = cursorOf(page[0])
			}
			if !slices.EqualFunc(all[:len(all)-1], paged, func(a, b storage.Record) bool {
				return a.ID == b.ID
			}) {
				c.Errorf("%+v: %d runs in pages back differ from %d at once", f, len(paged),
					len(all)-1)
			}
			f.Before, f.After = cursorOf(all[3]), cursorOf(all[6])
			if between := c.runs(f); len(between) != 2 || between[0].ID != all[4].ID ||
				between[1].ID != all[5].ID {
				c.Errorf("between two runs are %+v", between)
			}
		}
	}},
	{"runs of a firing are listed in the order of its recoveries", func(c *check) {
		c.recovering("a")
		one := c.session("one")
		r := request("a", 1)
		c.granted(one, r)
		c.granted(one, request("a", 2))
		c.Expire(one)
		c.sweep()
		chain, err := c.Store.FiringRuns(c.ctx, r.Firing)
		c.must(err)
		if len(chain) != 2 || chain[0].ID != r.Run || chain[0].State != jobs.Lost ||
			chain[1].Recovery != 1 || chain[1].State != jobs.Waiting {
			c.Errorf("runs of the firing are %+v", chain)
		}
		triggered := r.Firing
		triggered.Key = "by hand"
		none, err := c.Store.FiringRuns(c.ctx, triggered)
		c.must(err)
		equal(c, "runs of a trigger that was not", len(none), 0)
		record, err := c.Store.Trigger(c.ctx, storage.Action{Actor: "anna", Via: "go"},
			storage.TriggerRequest{Job: "a", Key: "by hand"})
		c.must(err)
		if found, err := c.Store.FiringRuns(c.ctx, triggered); err != nil || len(found) != 1 ||
			found[0].ID != record.ID {
			c.Errorf("runs of a trigger are %+v, %v", found, err)
		}
	}},
	{"runs are listed by a range of ids", func(c *check) {
		c.register("a")
		one := c.session("one")
		var ids []uuid.UUID
		for i := range 4 {
			r := request("a", i+1)
			c.finished(r, c.granted(one, r), jobs.Succeeded)
			ids = append(ids, r.Run)
		}
		slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		listed := func(first, last uuid.UUID, limit int) (found []uuid.UUID) {
			records, err := c.Store.RunsBetween(c.ctx, first, last, limit)
			c.must(err)
			for _, r := range records {
				found = append(found, r.ID)
			}
			return found
		}
		equal(c, "all", fmt.Sprint(listed(uuid.Nil, uuid.Max, storage.MaxBatch)), fmt.Sprint(ids))
		equal(c, "the first two", fmt.Sprint(listed(uuid.Nil, uuid.Max, 2)), fmt.Sprint(ids[:2]))
		equal(c, "a part with its ends", fmt.Sprint(listed(ids[1], ids[2], 10)),
			fmt.Sprint(ids[1:3]))
		equal(c, "one", fmt.Sprint(listed(ids[3], ids[3], 10)), fmt.Sprint(ids[3:]))
		equal(c, "none", len(listed(uuid.Max, uuid.Nil, 10)), 0)
	}},
}

func cursorOf(r storage.Record) *storage.RunCursor {
	return &storage.RunCursor{CreatedAt: r.CreatedAt, ID: r.ID}
}

// sameRuns fails the test unless the filter returns these runs, in any order.
func (c *check) sameRuns(f storage.RunFilter, want ...uuid.UUID) {
	c.Helper()
	var got, expected []string
	for _, r := range c.runs(f) {
		got = append(got, r.ID.String())
	}
	for _, id := range want {
		expected = append(expected, id.String())
	}
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		c.Errorf("runs by %+v are %q, want %q", f, got, expected)
	}
}
