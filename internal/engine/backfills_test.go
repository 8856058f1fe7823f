package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// past is a handler whose runs of backfills take d and whose other runs take a second. It records
// how many runs of backfills execute at once.
type past struct {
	takes time.Duration
	fails map[string]bool // runs of backfills, by scheduled time of day

	mu     sync.Mutex
	active int
	most   int
}

func (p *past) handlers() []jobs.Registration {
	return []jobs.Registration{jobs.Handle("work",
		func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			takes := time.Second
			if run.Key != "" {
				takes = p.takes
				p.count(1)
				defer p.count(-1)
			}
			if err := sleep.For(ctx, takes); err != nil {
				return err
			}
			if run.Key != "" && p.fails[run.ScheduledAt.Format(time.TimeOnly)] {
				return errors.New("as it was told to")
			}
			return nil
		})}
}

func (p *past) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active += n
	p.most = max(p.most, p.active)
}

// backfill requests a backfill of the job for n intervals that end now.
func (c *cluster) backfill(j jobs.Job, n, parallel int) uuid.UUID {
	c.t.Helper()
	now := time.Now()
	first := j.Schedule.Prev(now)
	for range n - 1 {
		first = j.Schedule.Prev(first)
	}
	definition, err := storage.Define(j, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := c.store.AddBackfill(c.t.Context(), byHand, storage.BackfillRequest{Job: j.Name,
		From: first, To: now, Parallel: parallel, Times: n,
		ScheduleKey: definition.ScheduleKey()})
	if err != nil {
		c.t.Fatal(err)
	}
	return b.ID
}

// progress returns the state of the backfill and its counts: left out, runs, succeeded,
// unsuccessful.
func (c *cluster) progress(id uuid.UUID) string {
	c.t.Helper()
	b, err := c.store.Backfill(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprint(b.State, " ", b.LeftOut, " ", b.Runs, " ", b.Succeeded, " ", b.Unsuccessful)
}

// backfilled returns the runs of the backfill with their states, the oldest scheduled time first.
func (c *cluster) backfilled(id uuid.UUID, job string) (runs []storage.Record, text string) {
	c.t.Helper()
	var all []string
	for _, r := range c.runs(job) {
		if r.Backfill == id {
			runs = append(runs, r)
			all = append(all, r.ScheduledAt.Format(time.TimeOnly)+" "+string(r.State))
		}
	}
	return runs, strings.Join(all, ", ")
}

// expect fails the test unless the two are equal.
func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func TestBackfillRunsPastTimesOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		hourly := job(t, "hourly", time.Hour, "orders")
		hourly.Deadline = 10 * time.Second // does not apply
		work := &past{takes: 20 * time.Second, fails: map[string]bool{"22:00:00": true}}
		var stops []func()
		for _, name := range []string{"a", "b", "c"} {
			stops = append(stops, c.start(c.options(name, work.handlers(), hourly)))
		}
		time.Sleep(time.Minute)
		began := time.Now()
		id := c.backfill(hourly, 4, 1)
		time.Sleep(90 * time.Second)
		expect(t, "progress", c.progress(id), "completed 0 4 3 1")
		runs, text := c.backfilled(id, "hourly")
		expect(t, "runs", text, "21:00:00 succeeded, 22:00:00 failed, 23:00:00 succeeded, "+
			"00:00:00 succeeded")
		if work.most != 1 {
			t.Errorf("%d runs at once, want 1", work.most)
		}
		for i, r := range runs[1:] {
			if gap := r.StartedAt.Sub(*runs[i].FinishedAt); gap < 0 || gap > time.Second {
				t.Errorf("run of %s started %s after the one before", r.ScheduledAt, gap)
			}
		}
		if delay := runs[0].StartedAt.Sub(began); delay > 2*time.Second {
			t.Errorf("the first run started after %s", delay)
		}
		again := c.backfill(hourly, 4, 1)
		time.Sleep(10 * time.Second)
		expect(t, "progress of another one", c.progress(again), "active 3 1 0 0")
		time.Sleep(time.Minute)
		expect(t, "progress of another one", c.progress(again), "completed 3 1 0 1")
		for _, stop := range stops {
			stop()
		}
	})
}

// A firing of the schedule waits for the run of the backfill although its job skips overlaps. The
// overlap policy then decides among the firings that have waited.
func TestFiringsWaitForARunOfABackfill(t *testing.T) {
	for overlap, second := range map[jobs.Overlap]jobs.State{jobs.OverlapSkip: jobs.Skipped,
		jobs.OverlapQueue: jobs.Succeeded} {
		t.Run(string(overlap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				minutely := job(t, "minutely", time.Minute, "orders")
				minutely.Overlap = overlap
				work := &past{takes: 150 * time.Second}
				stop := c.start(c.options("a", work.handlers(), minutely))
				time.Sleep(5 * time.Second)
				id := c.backfill(minutely, 1, 1)
				time.Sleep(4 * time.Minute)
				stop()
				runs, text := c.backfilled(id, "minutely")
				expect(t, "backfill", text, "00:00:00 succeeded")
				var scheduled []string
				for _, r := range c.runs("minutely") {
					if r.Key != "" {
						continue
					}
					if r.BlockedBy != nil && r.BlockedBy.Holder.Run == runs[0].ID.String() {
						t.Errorf("%s ended as %s because of the backfill", r.ScheduledAt, r.State)
					}
					scheduled = append(scheduled, fmt.Sprint(r.ScheduledAt.Format(time.TimeOnly),
						" ", r.State))
				}
				want := fmt.Sprintf("00:01:00 succeeded, 00:02:00 %s, 00:03:00 succeeded, "+
					"00:04:00 succeeded", second)
				expect(t, "firings", strings.Join(scheduled, ", "), want)
			})
		})
	}
}

func TestBackfillGoesOnAfterAllReplicasEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		hourly := job(t, "hourly", time.Hour)
		work := &past{takes: 20 * time.Second}
		stop := c.start(c.options("a", work.handlers(), hourly))
		time.Sleep(5 * time.Second)
		id := c.backfill(hourly, 5, 1)
		time.Sleep(30 * time.Second)
		stop()
		time.Sleep(10 * time.Minute)
		stop = c.start(c.options("b", work.handlers(), hourly))
		time.Sleep(3 * time.Minute)
		stop()
		expect(t, "progress", c.progress(id), "completed 0 5 5 0")
		runs, _ := c.backfilled(id, "hourly")
		if len(runs) != 5 {
			t.Errorf("got %d runs, want 5", len(runs))
		}
	})
}

func TestPauseHoldsABackfillBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		hourly := job(t, "hourly", time.Hour)
		hourly.Group = "night"
		work := &past{takes: 10 * time.Second}
		stop := c.start(c.options("a", work.handlers(), hourly))
		time.Sleep(5 * time.Second)
		id := c.backfill(hourly, 3, 1)
		time.Sleep(5 * time.Second)
		night := storage.Target{Kind: storage.TargetGroup, Name: "night"}
		if _, err := c.store.Pause(t.Context(), byHand, night); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		expect(t, "progress during the pause", c.progress(id), "active 0 1 1 0")
		if _, err := c.store.Resume(t.Context(), byHand, night); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		stop()
		expect(t, "progress", c.progress(id), "completed 0 3 3 0")
	})
}

func TestCancelledBackfillAddsNoMoreRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		hourly := job(t, "hourly", time.Hour)
		work := &past{takes: 20 * time.Second}
		stop := c.start(c.options("a", work.handlers(), hourly))
		time.Sleep(5 * time.Second)
		id := c.backfill(hourly, 5, 1)
		time.Sleep(30 * time.Second)
		if _, err := c.store.CancelBackfill(t.Context(), byHand, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		stop()
		expect(t, "progress", c.progress(id), "cancelled 0 2 2 0")
	})
}

// Runs of backfills use the slots of late runs: a quarter of the workers.
func TestParallelBackfillLeavesWorkersFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		hourly := job(t, "hourly", time.Hour)
		hourly.Overlap = jobs.OverlapAllow
		work := &past{takes: 20 * time.Second}
		o := c.options("a", work.handlers(), hourly)
		o.Workers = 8
		stop := c.start(o)
		time.Sleep(5 * time.Second)
		id := c.backfill(hourly, 6, 4)
		time.Sleep(5 * time.Second)
		expect(t, "progress", c.progress(id), "active 0 4 0 0")
		time.Sleep(2 * time.Minute)
		stop()
		expect(t, "progress", c.progress(id), "completed 0 6 6 0")
		if work.most != 2 {
			t.Errorf("%d runs at once, want 2", work.most)
		}
	})
}

// The recovery of a lost run belongs to the backfill.
func TestBackfillOfAReplicaThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		hourly := job(t, "hourly", time.Hour)
		hourly.Recover = true
		work := &past{takes: 20 * time.Second}
		dies := c.options("dies", work.handlers(), hourly)
		link := c.store.(*simstore.Store).NewLink(1)
		dies.Store = link
		stopDead := c.start(dies)
		time.Sleep(5 * time.Second)
		id := c.backfill(hourly, 3, 1)
		time.Sleep(10 * time.Second)
		link.SetCut(true)
		stop := c.start(c.options("b", work.handlers(), hourly))
		time.Sleep(5 * time.Minute)
		expect(t, "progress", c.progress(id), "completed 0 3 3 0")
		runs, _ := c.backfilled(id, "hourly")
		lost := slices.IndexFunc(runs, func(r storage.Record) bool {
			return r.State == jobs.Lost && r.Reason == reasons.SessionLost
		})
		if len(runs) != 4 || lost < 0 {
			t.Errorf("runs %+v, want a lost one among four", runs)
		}
		stop()
		link.SetCut(false)
		stopDead()
	})
}

// A start delay of months would hide those of current work.
func TestStartDelayOfABackfillCountsFromItsCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		hourly := job(t, "hourly", time.Hour)
		var mu sync.Mutex
		var delays []time.Duration
		o := c.options("a", takes(time.Second), hourly)
		o.Observer = func(e *jobs.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == jobs.EventStarted {
				delays = append(delays, e.StartDelay)
			}
		}
		stop := c.start(o)
		time.Sleep(5 * time.Second)
		c.backfill(hourly, 3, 1)
		time.Sleep(time.Minute)
		stop()
		mu.Lock()
		defer mu.Unlock()
		if len(delays) != 3 || slices.Max(delays) > 2*time.Second {
			t.Errorf("start delays %v, want three of at most 2 s", delays)
		}
	})
}
