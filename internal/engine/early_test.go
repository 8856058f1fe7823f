package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
)

// slowing is a handler that is quick until it becomes slow. It counts its calls, and how many of
// them there were at once.
type slowing struct {
	takes             atomic.Int64
	calls, busy, most atomic.Int64
}

func (s *slowing) registrations() []jobs.Registration {
	s.takes.Store(int64(time.Millisecond))
	return []jobs.Registration{jobs.Handle("work",
		func(ctx context.Context, _ *jobs.Run, _ struct{}) error {
			s.calls.Add(1)
			busy := s.busy.Add(1)
			defer s.busy.Add(-1)
			for most := s.most.Load(); busy > most; most = s.most.Load() {
				s.most.CompareAndSwap(most, busy)
			}
			return sleep.For(ctx, time.Duration(s.takes.Load()))
		})}
}

func (s *slowing) becomesSlow(d time.Duration) { s.takes.Store(int64(d)) }

// quickJobs returns n jobs that are due each minute, each with a table.
func quickJobs(t *testing.T, n int) []jobs.Job {
	var table []jobs.Job
	for i := range n {
		j := job(t, fmt.Sprint("job-", i), time.Minute, fmt.Sprint("table-", i))
		j.Misfire = jobs.MisfireSkip
		table = append(table, j)
	}
	return table
}

// The firings of quick jobs start together although there are fewer workers, and their handlers
// still have to wait for a worker.
func TestQuickFiringsStartBeforeTheyHaveWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRankedCluster(t, 0, 0, nil)
		handler, store := &slowing{}, &burstStore{Store: c.store}
		o := c.options("a", handler.registrations(), quickJobs(t, 40)...)
		const workers = 4
		o.Store, o.Workers = store, workers
		c.add(o)
		for _, what := range []string{"unknown length, after quick first calls", "quick jobs"} {
			time.Sleep(time.Minute)
			// The first calls end one after the other, and each of their workers may begin one
			// firing alone.
			starts, largest := store.starts.Swap(0), store.largest.Swap(0)
			if starts >= 40/workers || largest <= workers {
				t.Errorf("40 firings of %s started in %d transactions of at most %d runs, want "+
					"fewer and larger ones than those of %d workers", what, starts, largest,
					workers)
			}
		}
		c.stop()
		if calls, most := handler.calls.Load(), handler.most.Load(); calls != 80 || most > 4 {
			t.Errorf("%d calls, at most %d at once; want 80 and 4", calls, most)
		}
	})
}

// If quick jobs become slow, the runs that get no worker give their claims and locks back, and run
// when a worker is free. They do not start early again.
func TestEarlyRunsWithoutAWorkerGiveTheirClaimsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handler, table := &slowing{}, quickJobs(t, 4)
		o := c.options("a", handler.registrations(), table...)
		o.Workers = 1
		_, stop := c.startsEarly(o, handler, 40*time.Second)
		time.Sleep(time.Second)
		if got := c.granted(); got != 1 {
			t.Errorf("%d runs have a claim after a second, want the one with the worker", got)
		}
		waiting := 0
		for _, j := range table {
			for _, r := range c.runs(j.Name) {
				if r.State == jobs.Waiting && r.Reason == reasons.NoWorker &&
					r.StartedAt == nil && r.Detail == "replica a had no free worker for it" {
					waiting++
				}
			}
		}
		if waiting != 3 {
			t.Errorf("%d runs wait for a worker as if they had not started, want 3", waiting)
		}
		handler.becomesSlow(time.Millisecond)
		time.Sleep(50 * time.Second)
		stop()
		if calls := handler.calls.Load(); calls != 8 {
			t.Errorf("%d calls, want one for each of 8 firings", calls)
		}
		for _, j := range table {
			for _, r := range c.runs(j.Name) {
				if r.State != jobs.Succeeded || r.Attempt != 1 {
					t.Errorf("%s: %s %s in attempt %d", r.Job, r.State, r.Reason, r.Attempt)
				}
			}
		}
	})
}

// An early run that gets no worker does not wait if its job was removed meanwhile.
func TestEarlyRunWithoutAWorkerOfARemovedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handler, table := &slowing{}, quickJobs(t, 2)
		o := c.options("a", handler.registrations(), table...)
		o.Workers = 1
		var h hearing
		o.Listeners = []jobs.Listener{h.listen}
		replica, stop := c.startsEarly(o, handler, 10*time.Second)
		if _, err := replica.SetJobs(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		stop()
		var ends []string
		for _, j := range table {
			ends = append(ends, c.outcomes(j.Name)...)
		}
		slices.Sort(ends)
		want := []string{"skipped job_gone", "succeeded", "succeeded", "succeeded"}
		if !slices.Equal(ends, want) {
			t.Errorf("got %v, want %v", ends, want)
		}
		if events := h.of("job-0") + h.of("job-1"); !strings.Contains(events,
			"scheduled, skipped job_gone") {
			t.Errorf("events: %s", events)
		}
	})
}

// Early runs that get no worker run on another replica that has free workers.
func TestEarlyRunsWithoutAWorkerRunElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handler, table := &slowing{}, quickJobs(t, 4)
		o := c.options("a", handler.registrations(), table...)
		o.Workers = 1
		_, stopFirst := c.startsEarly(o, handler, 40*time.Second)
		o.Replica, o.Workers = "b", 4
		stopSecond := c.start(o)
		time.Sleep(5 * time.Second)
		if got := handler.busy.Load(); got != 4 {
			t.Errorf("%d handlers are at work, want 4: three at the second replica", got)
		}
		handler.becomesSlow(time.Millisecond)
		time.Sleep(40 * time.Second)
		stopFirst()
		stopSecond()
		replicas := map[string]int{}
		for _, j := range table {
			for _, r := range c.runs(j.Name) {
				if r.State != jobs.Succeeded {
					t.Errorf("%s: %s %s", r.Job, r.State, r.Reason)
				}
				replicas[r.Replica]++
			}
		}
		if replicas["b"] < 3 {
			t.Errorf("runs by replica: %v, want three of the second replica", replicas)
		}
	})
}

// A replica whose workers are busy begins no firing early: another one may have a free worker.
func TestNoFiringBeginsEarlyWhileAllWorkersAreBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handlers := takesBy(map[string]time.Duration{"job-0": time.Millisecond, "hog": time.Hour})
		table := append(quickJobs(t, 1), once(t, "hog", 90*time.Second))
		o := c.options("a", handlers, table...)
		o.Workers, o.ShutdownGrace = 1, time.Second
		stop := c.start(o)
		time.Sleep(2*time.Minute + 10*time.Second)
		if got := c.outcomes("job-0"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("got %v, want one run and no row of the second firing", got)
		}
		stop()
	})
}

// The limits of a job with a deadline apply until its handler is called, so its firings do not
// begin early.
func TestNoFiringWithADeadlineBeginsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handler, table := &slowing{}, quickJobs(t, 2)
		for i := range table {
			table[i].Deadline = 700 * time.Millisecond
		}
		o := c.options("a", handler.registrations(), table...)
		o.Workers = 1
		stop := c.start(o)
		time.Sleep(90 * time.Second)
		handler.becomesSlow(2 * time.Second)
		time.Sleep(30*time.Second + 500*time.Millisecond)
		if got := c.granted(); got != 1 {
			t.Errorf("%d runs have a claim, want the one with the worker", got)
		}
		time.Sleep(10 * time.Second)
		stop()
		if calls := handler.calls.Load(); calls != 3 {
			t.Errorf("%d calls, want 3: the second firing got no worker within its deadline", calls)
		}
	})
}

// A replica that stops leaves an early run without a worker to another replica.
func TestEarlyRunWithoutAWorkerSurvivesAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handler, table := &slowing{}, quickJobs(t, 2)
		o := c.options("a", handler.registrations(), table...)
		o.Workers, o.ShutdownGrace = 1, 100*time.Millisecond
		_, stop := c.startsEarly(o, handler, time.Hour)
		stop()
		if got := c.granted(); got != 0 {
			t.Errorf("%d runs still have a claim", got)
		}
		handler.becomesSlow(time.Millisecond)
		o.Replica = "b"
		stop = c.start(o)
		time.Sleep(20 * time.Second)
		stop()
		if calls := handler.calls.Load(); calls != 4 {
			t.Errorf("%d calls, want one for each of 4 firings", calls)
		}
		var ends []string
		for _, j := range table {
			ends = append(ends, c.outcomes(j.Name)...)
		}
		slices.Sort(ends)
		want := []string{"cancelled shutdown", "succeeded", "succeeded", "succeeded"}
		if !slices.Equal(ends, want) {
			t.Errorf("got %v, want %v: only the run whose handler was called is cancelled", ends,
				want)
		}
	})
}

// An early firing that waits for its locks has no share of a reserved worker.
func TestEarlyFiringReservesNoWorkerWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handlers := takesBy(map[string]time.Duration{"job-0": time.Millisecond,
			"hog": 10 * time.Second})
		table := append(quickJobs(t, 1), once(t, "hog", 115*time.Second, "table-0"))
		o := c.options("a", handlers, table...)
		o.Workers = 2
		replica, stop := c.begin(o)
		time.Sleep(121 * time.Second)
		if got := replica.Stats(); got.Busy != 1 || got.Waiting != 1 {
			t.Errorf("%d workers are busy and %d runs wait, want the hog and the quick job",
				got.Busy, got.Waiting)
		}
		stop()
	})
}

// startsEarly starts a replica with quickJobs, and returns when the second run of each has begun
// early. In these runs, the handler takes d.
func (c *cluster) startsEarly(o engine.Options, handler *slowing, d time.Duration) (
	replica *engine.Scheduler, stop func()) {
	c.t.Helper()
	replica, stop = c.begin(o)
	time.Sleep(90 * time.Second)
	handler.becomesSlow(d)
	time.Sleep(30*time.Second + 500*time.Millisecond)
	if got := c.granted(); got != len(o.Jobs) {
		c.t.Errorf("%d runs have a claim, want all %d early runs", got, len(o.Jobs))
	}
	return replica, stop
}

// granted returns how many runs have a claim in the store.
func (c *cluster) granted() int {
	c.t.Helper()
	held, err := c.store.Locks(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	claims := map[jobs.Token]bool{}
	for _, l := range held {
		claims[l.Token] = true
	}
	return len(claims)
}
