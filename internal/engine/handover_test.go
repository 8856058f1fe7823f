package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// Firings that wait for a table on the replica of its holder start when the holder releases it, in
// the order in which they began to wait, and not when their next try comes.
func TestReleaseWakesTheFirstWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		holder := once(t, "holder", 10*time.Second, "orders")
		second := once(t, "second", 11*time.Second, "orders")
		third := once(t, "third", 12*time.Second, "orders")
		for _, j := range []*jobs.Job{&second, &third} {
			j.Wait = retry.Policy{Elapsed: time.Hour, Delay: 7 * time.Minute,
				Backoff: retry.Constant}
			j.Reserve = time.Hour
		}
		stop := c.start(c.options("a", takes(20*time.Second), holder, second, third))
		time.Sleep(2 * time.Minute)
		stop()

		began := c.starts([]jobs.Job{holder, second, third})
		if len(began) != 3 {
			t.Fatalf("%d runs started within two minutes, want 3", len(began))
		}
		for i, name := range []string{"holder", "second", "third"} {
			if began[i].Job != name {
				t.Fatalf("run %d is of %s, want %s", i+1, began[i].Job, name)
			}
			if i == 0 {
				continue
			}
			if gap := began[i].StartedAt.Sub(*began[i-1].FinishedAt); gap > 50*time.Millisecond {
				t.Errorf("%s started %s after %s had ended", name, gap, began[i-1].Job)
			}
		}
	})
}

// Two tables are released one after the other, in less than the pace of starts.
func TestWokenFiringStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		holders := []jobs.Job{once(t, "holder-a", 10*time.Second, "a"),
			once(t, "holder-b", 10*time.Second, "b")}
		waiters := []jobs.Job{once(t, "waiter-a", 11*time.Second, "a"),
			once(t, "waiter-b", 11*time.Second, "b")}
		handlers := takesBy(map[string]time.Duration{"holder-a": 20 * time.Second,
			"holder-b": 20*time.Second + 3*time.Millisecond})
		for i := range waiters {
			waiters[i].Wait = retry.Policy{Elapsed: time.Hour, Delay: 7 * time.Minute,
				Backoff: retry.Constant}
		}
		stop := c.start(c.options("a", handlers, append(holders, waiters...)...))
		time.Sleep(2 * time.Minute)
		stop()
		for i, waiter := range waiters {
			ended, began := c.runs(holders[i].Name)[0].FinishedAt, c.runs(waiter.Name)[0].StartedAt
			if began == nil || began.Sub(*ended) >= time.Millisecond {
				t.Errorf("%s started at %v, want it at the release of its table at %v",
					waiter.Name, began, ended)
			}
		}
	})
}

// An attempt that fails gives back its table until the next one.
func TestFailedAttemptWakesAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		fails := once(t, "fails", 10*time.Second, "orders")
		fails.Timeout = 5 * time.Second
		fails.Retry = retry.Policy{Attempts: 2, Delay: 10 * time.Minute, Backoff: retry.Constant}
		waits := once(t, "waits", 11*time.Second, "orders")
		waits.Wait = retry.Policy{Elapsed: time.Hour, Delay: 7 * time.Minute,
			Backoff: retry.Constant}
		stop := c.start(c.options("a", takes(20*time.Second), fails, waits))
		time.Sleep(2 * time.Minute)
		stop()
		began := c.starts([]jobs.Job{waits})
		if len(began) != 1 {
			t.Fatal("the waiting firing did not start when the attempt had ended")
		}
	})
}

// A woken firing that needs another table besides leaves the free one to the next.
func TestWokenFiringPassesTheWakeOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		holder, long := once(t, "holder", 10*time.Second, "a"), once(t, "long", 10*time.Second, "b")
		long.Handler = "longer"
		both := once(t, "both", 11*time.Second, "a", "b")
		next := once(t, "next", 12*time.Second, "a")
		for _, j := range []*jobs.Job{&both, &next} {
			j.Reserve = locking.NeverReserve
			j.Wait = retry.Policy{Elapsed: time.Hour, Delay: 7 * time.Minute,
				Backoff: retry.Constant}
		}
		handlers := append(takes(20*time.Second), jobs.Handle("longer",
			func(ctx context.Context, _ *jobs.Run, _ struct{}) error {
				return sleep.For(ctx, 40*time.Second)
			}))
		stop := c.start(c.options("a", handlers, holder, long, both, next))
		time.Sleep(2 * time.Minute)
		stop()
		ended := c.runs("holder")[0].FinishedAt
		began := c.runs("next")[0].StartedAt
		if began == nil || began.Sub(*ended) > 50*time.Millisecond {
			t.Errorf("next started at %v, want it at the release of its table at %v", began, ended)
		}
		if began := c.runs("both")[0].StartedAt; began == nil {
			t.Error("the firing that passed the wake on never started")
		}
	})
}

// slowNotes is a store that takes a while to record that a firing waits.
type slowNotes struct {
	storage.Store
	takes time.Duration
}

func (s *slowNotes) Note(ctx context.Context, session uuid.UUID,
	notes []storage.Note) ([]bool, error) {
	if err := sleep.For(ctx, s.takes); err != nil {
		return nil, err
	}
	return s.Store.Note(ctx, session, notes)
}

// The holder of a table releases it while the store records that a firing waits for it. The firing
// starts as soon as it is recorded, and not when its next try comes.
func TestReleaseWhileTheWaitIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		table := []jobs.Job{job(t, "one", time.Hour, "orders"),
			job(t, "other", time.Hour, "orders")}
		for i := range table {
			table[i].Wait = retry.Policy{Elapsed: time.Hour, Delay: 7 * time.Minute,
				Backoff: retry.Constant}
		}
		o := c.options("a", takes(2*time.Second), table...)
		notes := &slowNotes{Store: c.store, takes: 4 * time.Second}
		o.Store = notes
		stop := c.start(o)
		time.Sleep(time.Hour + 30*time.Minute)
		stop()
		began := c.starts(table)
		if len(began) != 2 {
			t.Fatalf("runs: %+v, want one of each job", began)
		}
		gap := began[1].StartedAt.Sub(*began[0].FinishedAt)
		if gap < time.Second || gap > notes.takes {
			t.Errorf("the second run started %s after the end of the first, want it when its wait "+
				"was recorded, %s after its first try", gap, notes.takes)
		}
	})
}

// A worker does not wait until the skip of a firing is recorded. Otherwise many skips would keep
// the next firings from their workers. They would come late, and would be skipped too.
func TestSkipIsRecordedWithoutAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		stopHolder := c.start(c.options("holder", takes(20*time.Second),
			once(t, "holder", 10*time.Second, "orders")))
		skipped, next := once(t, "skipped", 15*time.Second, "orders"),
			once(t, "next", 16*time.Second)
		skipped.Wait = retry.Policy{Attempts: 1}
		o := c.options("a", takes(time.Second), skipped, next)
		o.Workers, o.Store = 1, &slowNotes{Store: c.store, takes: 4 * time.Second}
		stop := c.start(o)
		time.Sleep(time.Minute)
		stop()
		stopHolder()
		if got := c.outcomes("skipped"); !slices.Equal(got, []string{"skipped lock_held"}) {
			t.Errorf("got %v, want one skip", got)
		}
		if r := c.runs("next"); len(r) != 1 || r[0].StartedAt == nil ||
			r[0].StartedAt.Sub(r[0].ScheduledAt) > 100*time.Millisecond {
			t.Errorf("got %+v, want a run that started at once", r)
		}
	})
}

// noWorkerNotes counts the notes that a firing waits for a worker.
type noWorkerNotes struct {
	storage.Store
	n atomic.Int64
}

func (s *noWorkerNotes) Note(ctx context.Context, session uuid.UUID,
	notes []storage.Note) ([]bool, error) {
	for _, n := range notes {
		if n.Reason == reasons.NoWorker {
			s.n.Add(1)
		}
	}
	return s.Store.Note(ctx, session, notes)
}

// A woken firing that gets a worker soon is not recorded before.
func TestShortWaitForAWorkerIsNotRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		busy  time.Duration // how long the only worker is busy
		notes int64
	}{"a short wait": {600 * time.Millisecond, 0}, "a long wait": {3 * time.Second, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				stopHolder := c.start(c.options("holder", takes(9300*time.Millisecond),
					once(t, "holder", 10*time.Second, "orders")))
				waits := once(t, "waits", 19*time.Second, "orders")
				waits.Wait = retry.Policy{Elapsed: time.Hour, Delay: 50 * time.Millisecond,
					Backoff: retry.Constant}
				waits.Priority = jobs.MaxPriority // it tries before the worker is busy
				o := c.options("a", takesBy(map[string]time.Duration{"busy": test.busy}), waits,
					once(t, "busy", 19*time.Second))
				store := &noWorkerNotes{Store: c.store}
				o.Workers, o.Store = 1, store
				stop := c.start(o)
				time.Sleep(time.Minute)
				stop()
				stopHolder()
				if got := store.n.Load(); got != test.notes {
					t.Errorf("got %d notes, want %d", got, test.notes)
				}
				most := test.busy + 100*time.Millisecond
				if r := c.runs("waits"); len(r) != 1 || r[0].State != jobs.Succeeded ||
					r[0].StartedAt.Sub(r[0].ScheduledAt) > most {
					t.Errorf("got %+v, want a run that started as soon as the worker was free", r)
				}
			})
		})
	}
}
