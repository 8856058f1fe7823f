package jobstest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var waitHistoryRules = []rule{
	{"a wait is summed up when it ends, with its outcome", func(c *check) {
		s := c.session("one")
		holder, waiter, skipped := request("holder", 1, table("s/t")),
			request("waiter", 1, table("s/t")), request("skipped", 2, table("s/t"))
		token := c.granted(s, holder)
		for _, r := range []*storage.StartRequest{&waiter, &skipped} {
			r.WaitSince = c.now().Add(-time.Minute)
			blocker := c.blocked(s, *r, reasons.LockHeld, holder)
			c.blocked(s, *r, reasons.LockHeld, holder)
			// while it polls, the run describes the same blocker differently
			still := noteOf(*r, jobs.Waiting, reasons.LockHeld)
			still.Blocker = blocker
			equal(c, "note", c.note(s, still), true)
		}
		c.noWaits()
		gaveUp := noteOf(skipped, jobs.Skipped, reasons.LockHeld)
		gaveUp.Blocker = &jobs.Blocker{Resource: "s/t",
			Holder: locking.Owner{Replica: "one", Job: "holder", Run: holder.Run.String()}}
		equal(c, "skip", c.note(s, gaveUp), true)
		c.finished(holder, token, jobs.Succeeded)
		c.granted(s, waiter)
		sums := c.waitSummaries()
		if len(sums) != 2 {
			c.Fatalf("wait summaries %+v, want one of each waiter", sums)
		}
		for _, b := range sums {
			notRun := map[string]int{"waiter": 0, "skipped": 1}
			if b.Holder != "holder" || b.Resource != "s/t" || b.Times != 1 ||
				b.NotRun != notRun[b.Job] {
				c.Errorf("wait summary %+v", b)
			}
			const step = 10 * time.Millisecond // NTP may set the machine's clock back
			if b.Waited < time.Minute-step || b.Waited > time.Minute+testTimeout ||
				b.Longest != b.Waited {
				c.Errorf("waited %s, longest %s", b.Waited, b.Longest)
			}
			within(c, "the end of the wait", b.Last, c.began.Add(-time.Second), c.now())
		}
	}},
	{"a run that waits for two blockers counts for both", func(c *check) {
		s := c.session("one")
		first, second, waiter := request("first", 1, table("s/t")),
			request("second", 1, table("s/u")), request("waiter", 1, table("s/t"), table("s/u"))
		waiter.WaitSince = c.now().Add(-time.Minute)
		one, two := c.granted(s, first), c.granted(s, second)
		c.blocked(s, waiter, reasons.LockHeld, first)
		c.finished(first, one, jobs.Succeeded)
		c.blocked(s, waiter, reasons.LockHeld, second)
		c.finished(second, two, jobs.Succeeded)
		c.granted(s, waiter)
		sums := c.waitSummaries()
		if len(sums) != 2 || sums[0].Holder != "first" || sums[0].Resource != "s/t" ||
			sums[1].Holder != "second" || sums[1].Resource != "s/u" {
			c.Fatalf("wait summaries %+v", sums)
		}
		if sums[1].Waited >= sums[0].Waited {
			c.Errorf("the second wait, of %s, counts from the beginning of the first",
				sums[1].Waited)
		}
	}},
	{"a skip counts as a wait only if it has a blocker",
		func(c *check) {
			s := c.session("one")
			n := noteOf(request("a", 1, table("s/t")), jobs.Skipped, reasons.Overlap)
			n.WaitSince = c.now()
			n.Blocker = &jobs.Blocker{Resource: "job:a",
				Holder: locking.Owner{Replica: "one", Job: "a", Run: uuid.NewString()}}
			c.note(s, n)
			c.note(s, noteOf(request("b", 1), jobs.Missed, reasons.Misfire))
			r := request("c", 1, table("s/t"))
			c.finished(r, c.granted(s, r), jobs.Succeeded)
			sums := c.waitSummaries()
			if len(sums) != 1 || sums[0].Job != "a" || sums[0].Holder != "a" ||
				sums[0].Resource != "job:a" || sums[0].NotRun != 1 {
				c.Errorf("wait summaries %+v", sums)
			}
		}},
	{"a cancel ends the wait of a run", func(c *check) {
		s := c.session("one")
		holder, waiter := request("holder", 1, table("s/t")), request("waiter", 1, table("s/t"))
		waiter.WaitSince = c.now().Add(-time.Minute)
		c.granted(s, holder)
		c.blocked(s, waiter, reasons.LockHeld, holder)
		_, err := c.Store.Cancel(c.ctx, action, waiter.Run)
		c.must(err)
		if sums := c.waitSummaries(); len(sums) != 1 || sums[0].NotRun != 1 ||
			sums[0].Waited < time.Minute {
			c.Errorf("wait summaries %+v", sums)
		}
	}},
	{"wait summaries are limited to a time span and pruned", func(c *check) {
		s := c.session("one")
		n := noteOf(request("a", 1), jobs.Skipped, reasons.LockHeld)
		n.Blocker = &jobs.Blocker{Resource: "s/t",
			Holder: locking.Owner{Job: "b", Run: uuid.NewString()}}
		c.note(s, n)
		for _, q := range []struct {
			from,
			until time.Time
		}{{c.now().Add(time.Hour), c.now().Add(2 * time.Hour)},
			{c.now().Add(-2 * time.Hour), c.now().Add(-time.Hour)}} {
			sums, err := c.Store.WaitSummaries(c.ctx, q.from, q.until)
			c.must(err)
			equal(c, "wait summaries of another time", len(sums), 0)
		}
		equal(c, "wait summaries", len(c.waitSummaries()), 1)
		c.prune(s, storage.PruneRequest{Keep: time.Hour, Limit: 10})
		equal(c, "wait summaries after pruning to one hour", len(c.waitSummaries()), 1)
		c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10})
		c.noWaits()
	}},
	{"jobs that lock more than their own name have requests", func(c *check) {
		c.defined("h", map[string][]locking.Request{"a": {table("s/t"), ownName("a")},
			"b": {ownName("b")}, "c": {slot("api", 4), shared("s")}})
		requests, err := c.Store.JobRequests(c.ctx)
		c.must(err)
		if len(requests) != 2 || requests[0].Job != "a" ||
			!slices.Equal(requests[0].Requests, []locking.Request{table("s/t")}) ||
			requests[1].Job != "c" || len(requests[1].Requests) != 2 {
			c.Errorf("got requests %+v", requests)
		}
	}},
	{"stretches are the runs of given jobs in a time span", func(c *check) {
		s := c.session("one")
		ids := c.pastRuns(6)
		at := make([]time.Time, len(ids))
		for i, id := range ids {
			at[i] = c.record(id, jobs.Succeeded).CreatedAt
		}
		lasts, other := request("lasts", 1), request("other", 1)
		c.granted(s, lasts)
		c.granted(s, other)
		until := c.now().Add(time.Second)
		after := c.record(lasts.Run, jobs.Running).CreatedAt.Add(time.Microsecond)
		for _, q := range []struct {
			filter storage.RunIntervalFilter
			want   []uuid.UUID
		}{
			{storage.RunIntervalFilter{Jobs: []string{"a"}, From: at[0], Until: until, Each: 100},
				ids},
			{storage.RunIntervalFilter{Jobs: []string{"a"}, From: at[0], Until: until, Each: 2},
				ids[4:]},
			{storage.RunIntervalFilter{Jobs: []string{"a"}, From: at[0], Until: at[2], Each: 100},
				ids[:2]},
			{storage.RunIntervalFilter{Jobs: []string{"lasts"}, From: after, Until: until,
				Each: 100},
				[]uuid.UUID{lasts.Run}},
			{storage.RunIntervalFilter{Jobs: []string{"a", "lasts"}, From: until,
				Until: until.Add(time.Hour), Each: 100}, []uuid.UUID{lasts.Run}},
			{storage.RunIntervalFilter{Jobs: []string{"nobody"}, From: at[0], Until: until,
				Each: 100},
				nil},
			{storage.RunIntervalFilter{From: at[0], Until: until, Each: 100}, nil},
		} {
			found, err := c.Store.RunIntervals(c.ctx, q.filter)
			c.must(err)
			var got []uuid.UUID
			for _, stretch := range found {
				got = append(got, stretch.Run)
			}
			byText := func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
			want := slices.SortedFunc(slices.Values(q.want), byText)
			if slices.SortFunc(got, byText); !slices.Equal(got, want) {
				c.Errorf("%+v: got %v, want %v", q.filter, got, want)
			}
		}
	}},
	{"the typical duration of a job comes from its last runs", func(c *check) {
		c.pastRuns(5)
		c.note(c.session("one"), noteOf(request("never", 1), jobs.Skipped, reasons.LockHeld))
		typical, err := c.Store.Typical(c.ctx, []string{"a", "never", "nobody"})
		c.must(err)
		if t := typical["a"]; len(typical) != 1 || t.Runs != 5 || t.Median < 0 ||
			t.Long < t.Median || t.Long > testTimeout {
			c.Errorf("typical is %+v", typical)
		}
	}},
	{"the typical duration of a job leaves out runs of backfills", func(c *check) {
		c.overlapping()
		s := c.session("one")
		scheduled := request("a", 1)
		c.finished(scheduled, c.granted(s, scheduled), jobs.Succeeded)
		c.advance(c.backfill(c.pastHours(1), 1))
		run := c.waitingOf(s)[0]
		c.finished(run, c.granted(s, run), jobs.Succeeded)
		typical, err := c.Store.Typical(c.ctx, []string{"a"})
		c.must(err)
		equal(c, "runs", typical["a"].Runs, 1)
	}},
}

// waitSummaries returns all waits of this test.
func (c *check) waitSummaries() []storage.WaitSummary {
	c.Helper()
	sums, err := c.Store.WaitSummaries(c.ctx, c.began.Add(-time.Minute), c.now().Add(time.Minute))
	c.must(err)
	return sums
}

func (c *check) noWaits() {
	c.Helper()
	if sums := c.waitSummaries(); len(sums) != 0 {
		c.Errorf("wait summaries %+v, want none", sums)
	}
}
