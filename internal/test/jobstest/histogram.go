package jobstest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var histogramRules = []rule{
	{"a run counts from its end, once, by quarter and state", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.note(s, noteOf(request("b", 1), jobs.Waiting, reasons.LockHeld))
		equal(c, "quarters before the end", len(c.histogram()), 0)
		for range 2 { // the reply to the first was lost
			c.finished(r, token, jobs.Failed)
		}
		quarters := c.histogram()
		if len(quarters) != 1 {
			c.Fatalf("quarters %+v, want one", quarters)
		}
		q := quarters[0]
		equal(c, "quarter", q.From, storage.QuarterOf(c.record(r.Run, jobs.Failed).CreatedAt))
		equal(c, "failed runs", q.Runs[jobs.Failed], 1)
		equal(c, "states", len(q.Runs), 1)
		equal(c, "runs that started", q.Delays.Runs(), 1)
	}},
	{"a run of several attempts counts once", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		c.finished(r, c.granted(s, r), jobs.Waiting)
		equal(c, "quarters before the second attempt", len(c.histogram()), 0)
		r.Attempt = 2
		c.finished(r, c.granted(s, r), jobs.Succeeded)
		c.sameHistogram()
	}},
	{"start delays are counted in their buckets", func(c *check) {
		s := c.session("one")
		bounds := storage.DelayBounds()
		for i, bound := range append(bounds[:], 2*time.Hour) {
			r := request("a", i)
			r.Firing.ScheduledAt = c.now().Add(-bound)
			c.finished(r, c.granted(s, r), jobs.Succeeded)
		}
		early := request("early", 1)
		early.Firing.ScheduledAt = c.now().Add(time.Hour)
		c.finished(early, c.granted(s, early), jobs.Succeeded)
		c.note(s, noteOf(request("skipped", 1), jobs.Skipped, reasons.LockHeld))
		var delays storage.Delays
		for _, q := range c.sameHistogram() {
			delays.Add(q.Delays)
		}
		equal(c, "runs that started", delays.Runs(), len(bounds)+2)
		equal(c, "runs that started before their time", delays[0], 1)
		equal(c, "runs that started after more than an hour", delays[len(bounds)], 2)
	}},
	{"misfires, cancelled, lost, released and recovered runs count", func(c *check) {
		c.recovering("a")
		s, dying := c.session("one"), c.session("dying")
		missed := misfired("a", c.versions()["a"].CheckedUntil.Add(time.Second), jobs.Missed,
			reasons.Misfire)
		c.misfire(c.now().Add(time.Hour), missed)
		c.record(missed.Run, jobs.Missed)
		lost, released, cancelled := request("a", 1), request("b", 1, table("s/t")),
			request("c", 1, table("s/t"))
		c.granted(dying, lost)
		token := c.granted(s, released)
		c.blocked(s, cancelled, reasons.LockHeld, released)
		c.cancel(cancelled.Run)
		_, err := c.Store.Release(c.ctx, action, storage.ReleaseRequest{
			Resource: table("s/t").Resource, Token: token})
		c.must(err)
		c.Expire(dying)
		c.sweep()
		c.record(lost.Run, jobs.Lost)
		again := c.adopt(s, 1, "a")
		if len(again) != 1 || again[0].Recovery != 1 {
			c.Fatalf("adopted %+v, want the recovery", again)
		}
		recovery := storage.StartRequest{Run: again[0].ID, Attempt: 1,
			WaitSince: again[0].WaitSince, Firing: storage.Firing{Job: "a",
				ScheduledAt: again[0].ScheduledAt, Recovery: 1}}
		c.finished(recovery, c.granted(s, recovery), jobs.Succeeded)
		counts := map[jobs.State]int{}
		for _, q := range c.sameHistogram() {
			for state, n := range q.Runs {
				counts[state] += n
			}
		}
		want := map[jobs.State]int{jobs.Missed: 1, jobs.Lost: 2, jobs.Cancelled: 1,
			jobs.Succeeded: 1}
		if !reflect.DeepEqual(counts, want) {
			c.Errorf("counts %v, want %v", counts, want)
		}
	}},
	{"the histogram of a random history counts its runs", func(c *check) {
		seed := rand.Uint64()
		c.Logf("seed %d", seed)
		draw := rand.New(rand.NewPCG(seed, 0))
		s := c.session("one")
		type started struct {
			request storage.StartRequest
			token   jobs.Token
		}
		var running []started
		for n := range 150 {
			r := request("a", n)
			r.Firing.ScheduledAt = c.now().Add(-time.Duration(draw.Int64N(int64(time.Hour))))
			switch draw.IntN(7) {
			case 0, 1, 2:
				running = append(running, started{r, c.granted(s, r)})
			case 3, 4:
				var requests []storage.FinishRequest
				for range draw.IntN(len(running) + 1) {
					state := []jobs.State{jobs.Succeeded, jobs.Failed, jobs.TimedOut,
						jobs.Cancelled, jobs.Waiting}[draw.IntN(5)]
					requests = append(requests, storage.FinishRequest{Run: running[0].request.Run,
						Token: running[0].token, State: state})
					running = running[1:]
				}
				_, err := c.Store.Finish(c.ctx, requests)
				c.must(err)
			case 5:
				c.note(s, noteOf(r, []jobs.State{jobs.Skipped, jobs.Missed,
					jobs.Waiting}[draw.IntN(3)], reasons.LockHeld))
			case 6:
				if n%2 == 0 {
					c.Expire(s)
					s, running = c.session("next"), nil
				}
				c.sweep()
			}
		}
		c.sameHistogram()
	}},
	{"a histogram adds up the quarters of each part", func(c *check) {
		c.pastRuns(9)
		quarters := c.sameHistogram()
		first, end := quarters[0].From, quarters[len(quarters)-1].From.Add(storage.QuarterLength)
		for _, part := range []time.Duration{storage.QuarterLength, 45 * time.Minute, time.Hour,
			24 * time.Hour} {
			for _, from := range []time.Time{first, first.Add(-storage.QuarterLength),
				first.Add(-time.Second), first.Add(-5 * time.Hour)} {
				start := storage.HistogramStart(from)
				var parts []storage.Quarter
				for _, q := range quarters {
					at := start.Add(q.From.Sub(start) / part * part)
					if n := len(parts); n == 0 || !parts[n-1].From.Equal(at) {
						parts = append(parts, storage.Quarter{From: at,
							Runs: make(map[jobs.State]int)})
					}
					last := &parts[len(parts)-1]
					for state, n := range q.Runs {
						last.Runs[state] += n
					}
					last.Delays.Add(q.Delays)
				}
				found, err := c.Store.Histogram(c.ctx, from, end, part)
				c.must(err)
				if !reflect.DeepEqual(found, parts) {
					c.Errorf("parts of %s from %s: %+v, want %+v", part, from, found, parts)
				}
			}
		}
	}},
	{"ended runs are counted exactly in a short history, and by tallies in a long one",
		func(c *check) {
			none, err := c.Store.EndedRuns(c.ctx, 10)
			c.must(err)
			equal(c, "of no runs", fmt.Sprint(none), "{0 map[] false}")
			c.pastRuns(4)
			s := c.session("one")
			failed := request("b", 1)
			c.finished(failed, c.granted(s, failed), jobs.Failed)
			c.granted(s, request("b", 2))
			c.note(s, noteOf(request("c", 1, table("s/t")), jobs.Waiting, reasons.LockHeld))
			c.note(s, noteOf(request("c", 2), jobs.Skipped, reasons.LockHeld))
			// two of the eight runs are active
			for exactly, estimated := range map[int]bool{1000: false, 8: false, 7: true, 0: true} {
				ended, err := c.Store.EndedRuns(c.ctx, exactly)
				c.must(err)
				equal(c, fmt.Sprintf("exactly %d", exactly), fmt.Sprint(ended),
					fmt.Sprintf("{6 map[failed:1 skipped:1 succeeded:4] %t}", estimated))
			}
			c.sweep() // moves the changes of tallies
			ended, err := c.Store.EndedRuns(c.ctx, 0)
			c.must(err)
			equal(c, "after a sweep", fmt.Sprint(ended),
				"{6 map[failed:1 skipped:1 succeeded:4] true}")
		}},
	{"a histogram is limited to a time span and pruned", func(c *check) {
		c.pastRuns(3)
		quarters := c.sameHistogram()
		first, end := quarters[0].From, quarters[len(quarters)-1].From.Add(storage.QuarterLength)
		for _, q := range []struct {
			from, until time.Time
			want        int
		}{
			{first, end, len(quarters)}, {first.Add(time.Microsecond), end, len(quarters) - 1},
			{first, first, 0}, {end, end.Add(time.Hour), 0}, {first.Add(-time.Hour), first, 0},
			{first.Add(-storage.MaxHistogram), end, 0},
		} {
			found, err := c.Store.Histogram(c.ctx, q.from, q.until, storage.QuarterLength)
			c.must(err)
			equal(c, "quarters", len(found), q.want)
		}
		s := c.session("pruner")
		c.sweep()
		c.prune(s, storage.PruneRequest{Keep: time.Hour, Limit: 10})
		equal(c, "quarters after pruning to an hour", len(c.sameHistogram()), len(quarters))
		c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10})
		equal(c, "quarters after pruning", len(c.histogram()), 0)
	}},
}

// histogram returns the quarters of this test.
func (c *check) histogram() []storage.Quarter {
	c.Helper()
	quarters, err := c.Store.Histogram(c.ctx, c.began.Add(-time.Hour), c.now().Add(time.Hour),
		storage.QuarterLength)
	c.must(err)
	return quarters
}

// sameHistogram fails the test unless the histogram counts the runs of the history.
func (c *check) sameHistogram() []storage.Quarter {
	c.Helper()
	var parts []storage.Tally
	for _, r := range c.runs(storage.RunFilter{Limit: storage.MaxBatch}) {
		if !r.State.Final() {
			continue
		}
		t := storage.Tally{Quarter: storage.QuarterOf(r.CreatedAt), State: r.State,
			Delay: storage.NotStarted, Runs: 1}
		if r.StartedAt != nil {
			due := r.ScheduledAt
			if r.Backfill != uuid.Nil {
				due = r.CreatedAt
			}
			t.Delay = storage.DelayBucket(r.StartedAt.Sub(due))
		}
		parts = append(parts, t)
	}
	got, want := c.histogram(), storage.MergeTallies(parts)
	if !reflect.DeepEqual(got, want) {
		c.Errorf("histogram %+v, want %+v", got, want)
	}
	return got
}
