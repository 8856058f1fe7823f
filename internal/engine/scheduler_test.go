package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
	"github.com/holdfast-dev/holdfast/retry"
)

// cluster is a store and locks that the replicas of one test share. Its clock is that of the
// synctest bubble, so hours pass in milliseconds.
type cluster struct {
	t        *testing.T
	store    storage.Store
	runStore storage.RunStore
	locks    *memory.Backend
}

// byHand is the actor of triggers in the tests.
var byHand = storage.Action{Actor: "ann", Via: "go"}

// newCluster returns a cluster on the in-memory store, which passes the conformance suite of all
// stores.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	store := simstore.New()
	return &cluster{t: t, store: store, runStore: simstore.WithoutSQL(store), locks: memory.New()}
}

// newFileCluster is newCluster with a database file, for behaviour of real stores and for a few
// firings of each path. Its queries take about a hundred times as long, and even longer under the
// race detector.
func newFileCluster(t *testing.T) *cluster {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"),
		sqlite.Options{Exclusive: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return &cluster{t: t, store: store, runStore: store, locks: memory.New()}
}

// options returns the options of a replica that fires the jobs with the handlers.
func (c *cluster) options(name string, handlers []jobs.Registration,
	table ...jobs.Job) engine.Options {
	c.t.Helper()
	registry, err := jobs.NewRegistry(handlers...)
	if err != nil {
		c.t.Fatal(err)
	}
	locker, err := locking.New(c.locks,
		locking.Options{Namespace: c.store.ClusterID().String(), Lease: 30 * time.Second,
			Restore: true, Log: zerolog.Nop()})
	if err != nil {
		c.t.Fatal(err)
	}
	return engine.Options{
		Store: c.store, RunStore: c.runStore, Locker: locker, Registry: registry, Jobs: table,
		Replica: name,
		Version: "test", Workers: 8,
		Heartbeat: 5 * time.Second, SessionTTL: 15 * time.Second, ShutdownGrace: 30 * time.Second,
		Log: zerolog.Nop(),
	}
}

// start starts a replica. The returned function stops it and waits for its end.
func (c *cluster) start(o engine.Options) (stop func()) {
	c.t.Helper()
	_, stop = c.begin(o)
	return stop
}

// begin is start for tests that also call the replica.
func (c *cluster) begin(o engine.Options) (replica *engine.Scheduler, stop func()) {
	c.t.Helper()
	scheduler, err := engine.New(o)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- scheduler.Run(ctx) }()
	return scheduler, func() {
		c.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
	}
}

// runs returns the history, the earliest scheduled time first.
func (c *cluster) runs(job string) []storage.Record {
	c.t.Helper()
	records, err := c.store.Runs(context.Background(),
		storage.RunFilter{Job: job, Limit: storage.MaxBatch})
	if err != nil {
		c.t.Fatal(err)
	}
	slices.SortFunc(records, func(a, b storage.Record) int {
		return a.ScheduledAt.Compare(b.ScheduledAt)
	})
	return records
}

// outcomes returns state and reason of each of a job's runs.
func (c *cluster) outcomes(job string) []string {
	c.t.Helper()
	var all []string
	for _, r := range c.runs(job) {
		text := string(r.State)
		if r.Reason != "" {
			text += " " + string(r.Reason)
		}
		all = append(all, text)
	}
	return all
}

func every(t *testing.T, d time.Duration) schedule.Schedule {
	t.Helper()
	s, err := schedule.Parse(schedule.Spec{Every: d}, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tables(t *testing.T, names ...string) []locking.Request {
	t.Helper()
	var requests []locking.Request
	for _, name := range names {
		resource, err := locking.Table(name, "public")
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, locking.Request{Resource: resource, Mode: locking.Exclusive})
	}
	return requests
}

// job returns a job with the policies of the default configuration.
func job(t *testing.T, name string, interval time.Duration, names ...string) jobs.Job {
	t.Helper()
	return jobs.Job{
		Name: name, Schedule: every(t, interval), Handler: "work", Resources: tables(t, names...),
		Wait: retry.Policy{Attempts: 5, Delay: 500 * time.Millisecond, MaxDelay: 5 * time.Second,
			Backoff: retry.Exponential},
		Overlap: jobs.OverlapSkip, Misfire: jobs.MisfireRunOnce, MisfireThreshold: 30 * time.Second,
	}
}

// takes is a handler that takes d, or returns when its context ends.
func takes(d time.Duration) []jobs.Registration {
	return []jobs.Registration{jobs.Handle("work",
		func(ctx context.Context, _ *jobs.Run, _ struct{}) error {
			return sleep.For(ctx, d)
		})}
}

func TestEachFiringRunsOnceInACluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newFileCluster(t)
		var stops []func()
		for _, name := range []string{"a", "b", "c"} {
			stops = append(stops,
				c.start(c.options(name, takes(time.Second), job(t, "one", 10*time.Second, "orders"),
					job(t, "two", 20*time.Second, "sales"))))
		}
		time.Sleep(2*time.Minute + 5*time.Second)
		for _, stop := range stops {
			stop()
		}
		for name, want := range map[string]int{"one": 12, "two": 6} {
			records := c.runs(name)
			if len(records) != want {
				t.Errorf("%d runs of %s, want %d", len(records), name, want)
			}
			for i, r := range records {
				if r.State != jobs.Succeeded {
					t.Errorf("%s at scheduled time %s: %s", name, r.ScheduledAt, r.State)
				}
				if i > 0 && !r.ScheduledAt.After(records[i-1].ScheduledAt) {
					t.Errorf("%s: scheduled time %s occurs twice", name, r.ScheduledAt)
				}
			}
		}
	})
}

func TestFiringWaitsForAHeldTableAndIsSkippedWithItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFileCluster(t)
		long, short := once(t, "long", 10*time.Second, "orders"),
			once(t, "short", 11*time.Second, "orders", "sales")
		impatient := once(t, "impatient", 12*time.Second, "orders")
		impatient.Wait = retry.Policy{Attempts: 1}
		stop := c.start(c.options("a", takes(20*time.Second), long, short, impatient))
		time.Sleep(35 * time.Second)
		stop()
		records := c.runs("short")
		if len(records) != 1 || records[0].State != jobs.Skipped ||
			records[0].Reason != reasons.LockHeld {
			t.Fatalf("runs of short: %+v", records)
		}
		skipped, holder := records[0], c.runs("long")[0]
		if skipped.BlockedBy == nil || skipped.BlockedBy.Resource != "public/orders" ||
			skipped.BlockedBy.Holder.Run != holder.ID.String() {
			t.Errorf("blocked by %+v, want the run %s on public/orders", skipped.BlockedBy,
				holder.ID)
		}
		if waited := skipped.FinishedAt.Sub(skipped.ScheduledAt); waited < 7500*time.Millisecond ||
			waited > 8*time.Second {
			t.Errorf("skipped after %s, want 0.5+1+2+4 s", waited)
		}
		if !strings.Contains(skipped.Detail, "; tried 5 times in 7.") {
			t.Errorf("short was skipped with %q, want its five tries", skipped.Detail)
		}
		if once := c.runs("impatient"); len(once) != 1 ||
			!strings.HasSuffix(once[0].Detail, "; tried 1 time in 0s") {
			t.Errorf("runs of impatient: %+v, want one that was skipped after a try", once)
		}
	})
}

// once is a job with one scheduled time, that long after the start of the test.
func once(t *testing.T, name string, after time.Duration, names ...string) jobs.Job {
	t.Helper()
	s, err := schedule.Parse(schedule.Spec{At: time.Now().Add(after)}, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	j := job(t, name, time.Hour, names...)
	j.Schedule = s
	return j
}

func TestWaitingRunStartsWhenItsTableIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		first, second := once(t, "first", 10*time.Second, "orders"),
			once(t, "second", 11*time.Second, "orders")
		stop := c.start(c.options("a", takes(3*time.Second), first, second))
		time.Sleep(12700 * time.Millisecond)
		if got := c.outcomes("second"); !slices.Equal(got, []string{"waiting lock_held"}) {
			t.Errorf("meanwhile: %v", got)
		}
		time.Sleep(10 * time.Second)
		stop()
		if got := c.outcomes("second"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("afterwards: %v", got)
		}
		if a, b := c.runs("first")[0], c.runs("second")[0]; b.StartedAt.Before(*a.FinishedAt) ||
			b.Token <= a.Token {
			t.Errorf("second started %s with token %d, first ended %s with %d", b.StartedAt,
				b.Token, a.FinishedAt, a.Token)
		}
	})
}

func TestOverlap(t *testing.T) {
	for policy, want := range map[jobs.Overlap][]string{
		jobs.OverlapSkip:  {"succeeded", "skipped overlap", "succeeded", "skipped overlap"},
		jobs.OverlapQueue: {"succeeded", "succeeded", "succeeded", "succeeded"},
		jobs.OverlapAllow: {"succeeded", "succeeded", "succeeded", "succeeded"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				j := job(t, "job", 10*time.Second)
				j.Overlap = policy
				took := 15 * time.Second
				if policy == jobs.OverlapQueue {
					took = 10500 * time.Millisecond
				}
				stop := c.start(c.options("a", takes(took), j))
				time.Sleep(49 * time.Second)
				stop()
				if got := c.outcomes("job"); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		})
	}
}

// textError is an error whose nil pointer is none.
type textError struct{ text string }

func (e *textError) Error() string { return e.text }

func TestEndsOfAttempts(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		handle  func(ctx context.Context, run *jobs.Run, _ struct{}) error
		timeout time.Duration
		want    string
		message string
	}{
		"nil":                        {func(context.Context, *jobs.Run, struct{}) error { return nil }, 0, "succeeded", ""},
		"error":                      {func(context.Context, *jobs.Run, struct{}) error { return boom }, 0, "failed", "boom"},
		"panic":                      {func(context.Context, *jobs.Run, struct{}) error { panic("oh") }, 0, "failed panic", "handler panicked: oh"},
		"bad index":                  {func(context.Context, *jobs.Run, struct{}) error { var list []int; list[0] = 1; return nil }, 0, "failed panic", "handler panicked: runtime error: index out of range [0] with length 0"},
		"timeout":                    {func(ctx context.Context, _ *jobs.Run, _ struct{}) error { <-ctx.Done(); return context.Cause(ctx) }, time.Second, "timed_out timeout", "timeout: the attempt had not ended after 1s"},
		"succeeds after the timeout": {func(ctx context.Context, _ *jobs.Run, _ struct{}) error { <-ctx.Done(); return nil }, time.Second, "succeeded", ""},
		"ignores its context":        {func(context.Context, *jobs.Run, struct{}) error { time.Sleep(30 * time.Second); return nil }, time.Second, "timed_out timeout", "handler ignored the end of its context and was abandoned"},
		"a nil pointer as the error": {func(context.Context, *jobs.Run, struct{}) error {
			var none *textError
			return none
		}, 0, "failed panic", "handler panicked: runtime error: " +
			"invalid memory address or nil pointer dereference"},
		"ends its goroutine": {func(context.Context, *jobs.Run, struct{}) error { runtime.Goexit(); return nil }, 0, "failed", "the handler ended its goroutine (runtime.Goexit)"},
		"superseded inside": {func(context.Context, *jobs.Run, struct{}) error {
			return fmt.Errorf("write: %w", storage.ErrSuperseded)
		}, 0, "lost claim_lost", "write: superseded: its claim is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t)
				j := once(t, "job", 5*time.Second, "orders")
				j.Timeout = c.timeout
				stop := cl.start(cl.options("a", []jobs.Registration{jobs.Handle("work", c.handle)},
					j))
				time.Sleep(20 * time.Second)
				records := cl.runs("job")
				if got := cl.outcomes("job"); !slices.Equal(got, []string{c.want}) ||
					records[0].Error != c.message {
					t.Errorf("got %v with %q, want %s with %q", got, records[0].Error, c.want,
						c.message)
				}
				if locks, err := cl.store.Locks(t.Context()); err != nil || len(locks) > 0 {
					t.Errorf("still granted: %v, %v", locks, err)
				}
				stop()
				time.Sleep(30 * time.Second) // for the abandoned handler
			})
		})
	}
}

func TestFailedAttemptsAreRetriedAndReleaseTheirLocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newFileCluster(t)
		var tokens []jobs.Token
		flaky := jobs.Handle("work", func(_ context.Context, run *jobs.Run, _ struct{}) error {
			tokens = append(tokens, run.Token)
			if run.Attempt < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		j := once(t, "job", 10*time.Second, "orders")
		j.Retry = retry.Policy{Attempts: 3, Delay: time.Minute}
		stop := c.start(c.options("a", []jobs.Registration{flaky}, j))
		time.Sleep(40 * time.Second)
		if got := c.outcomes("job"); !slices.Equal(got, []string{"waiting retry"}) {
			t.Errorf("between attempts: %v", got)
		}
		if locks, err := c.store.Locks(t.Context()); err != nil || len(locks) > 0 {
			t.Errorf("granted between attempts: %v, %v", locks, err)
		}
		time.Sleep(2 * time.Minute)
		stop()
		if r := c.runs("job"); len(r) != 1 || r[0].State != jobs.Succeeded || r[0].Attempt != 3 {
			t.Errorf("runs: %+v", r)
		}
		if len(tokens) != 3 || !slices.IsSorted(tokens) || tokens[0] == tokens[2] {
			t.Errorf("tokens of the attempts: %v", tokens)
		}
	})
}

func TestStopCancelsRunsAfterTheGracePeriod(t *testing.T) {
	for name, c := range map[string]struct {
		took time.Duration
		want string
	}{"ends in time": {20 * time.Second, "succeeded"},
		"too long": {time.Hour, "cancelled shutdown"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t)
				stop := cl.start(cl.options("a", takes(c.took),
					once(t, "job", 5*time.Second, "orders")))
				time.Sleep(6 * time.Second)
				stop()
				if got := cl.outcomes("job"); !slices.Equal(got, []string{c.want}) {
					t.Errorf("got %v, want %s", got, c.want)
				}
				replicas, err := cl.store.Replicas(t.Context())
				if err != nil || len(replicas) != 1 || replicas[0].EndedAt == nil {
					t.Errorf("session not given back: %+v, %v", replicas, err)
				}
			})
		})
	}
}

func TestAnotherReplicaContinuesAttemptsOfAStoppedReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var attempts []int
		flaky := jobs.Handle("work", func(_ context.Context, run *jobs.Run, _ struct{}) error {
			attempts = append(attempts, run.Attempt)
			time.Sleep(2 * time.Second)
			return errors.New("not yet")
		})
		j := once(t, "job", 10*time.Second, "orders")
		j.Retry = retry.Policy{Attempts: 3, Delay: time.Second}
		stop := c.start(c.options("a", []jobs.Registration{flaky}, j))
		time.Sleep(11 * time.Second) // in its first attempt
		stop()
		if r := c.runs("job"); len(r) != 1 || r[0].State != jobs.Waiting ||
			r[0].Reason != reasons.Retry || r[0].Attempt != 2 || r[0].Error != "not yet" {
			t.Errorf("after stop: %+v", r)
		}
		successor := c.start(c.options("b", []jobs.Registration{flaky}, j))
		time.Sleep(time.Minute)
		successor()
		if r := c.runs("job"); len(r) != 1 || r[0].State != jobs.Failed || r[0].Replica != "b" ||
			!slices.Equal(attempts, []int{1, 2, 3}) {
			t.Errorf("runs %+v, attempts %v", r, attempts)
		}
	})
}

func TestWaitingFiringOfAStoppedReplicaIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long, short := once(t, "long", 10*time.Second, "orders"),
			once(t, "short", 11*time.Second, "orders")
		short.Wait = retry.Policy{Attempts: 100, Delay: time.Second}
		stopHolder := c.start(c.options("holder", takes(30*time.Second), long))
		stopWaiter := c.start(c.options("waiter", takes(time.Second), short))
		time.Sleep(15 * time.Second)
		stopWaiter()
		stopHeir := c.start(c.options("successor", takes(time.Second), short))
		time.Sleep(time.Minute)
		stopHeir()
		stopHolder()
		if r := c.runs("short"); len(r) != 1 || r[0].State != jobs.Succeeded ||
			r[0].Replica != "successor" {
			t.Errorf("runs: %+v", r)
		}
	})
}

// While a stopping replica waits for the end of a long run, other replicas adopt its waiting runs:
// a firing that waits for a lock, a run in its retry wait, and a run without a worker.
func TestOthersAdoptWaitingRunsWhileALongRunDelaysTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, released := newCluster(t), make(chan struct{})
		handlers := []jobs.Registration{jobs.Handle("work",
			func(ctx context.Context, run *jobs.Run, _ struct{}) error {
				switch {
				case run.Job == "long" || run.Job == "holder" || run.Job == "last":
					<-released
				case run.Job == "flaky" && run.Attempt == 1:
					return errors.New("not yet")
				}
				return nil
			})}
		long, holder := once(t, "long", 5*time.Second), once(t, "holder", 6*time.Second, "orders")
		flaky, blocked := once(t, "flaky", 7*time.Second), once(t, "blocked", 8*time.Second,
			"orders")
		last, queued := once(t, "last", 9*time.Second), once(t, "queued", 100*time.Hour)
		flaky.Retry = retry.Policy{Attempts: 2, Delay: time.Hour}
		blocked.Wait = retry.Policy{Delay: time.Second, Elapsed: time.Hour}
		table := []jobs.Job{long, holder, flaky, blocked, last, queued}
		o := c.options("a", handlers, table...)
		o.Workers, o.ShutdownGrace = 3, 2*time.Hour
		a, stop := c.begin(o)
		time.Sleep(10 * time.Second)
		if _, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "queued", Key: "k"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		waiting := []string{"flaky", "blocked", "queued"}
		for _, job := range waiting {
			if r := c.runs(job); len(r) != 1 || r[0].State != jobs.Waiting || r[0].Replica != "a" {
				t.Errorf("before the stop: %+v", r)
			}
		}
		stopOther := c.start(c.options("b", handlers, table...))
		time.Sleep(time.Second)
		var stopped sync.WaitGroup
		stopped.Go(stop)
		time.Sleep(5 * time.Second)
		for i, want := range []jobs.State{jobs.Succeeded, jobs.Waiting, jobs.Succeeded} {
			if r := c.runs(waiting[i]); len(r) != 1 || r[0].State != want || r[0].Replica != "b" {
				t.Errorf("while the long run continues: %+v, want %s on b", r, want)
			}
		}
		if got := a.Stats().Busy; got != 3 {
			t.Errorf("%d workers of the stopping replica are busy, want 3", got)
		}
		close(released)
		stopped.Wait()
		time.Sleep(5 * time.Second)
		stopOther()
		for _, job := range []string{"long", "holder", "last", "blocked"} {
			if got := c.outcomes(job); !slices.Equal(got, []string{"succeeded"}) {
				t.Errorf("%s: %v", job, got)
			}
		}
	})
}

func TestMisfiresByPolicy(t *testing.T) {
	for policy, want := range map[jobs.Misfire][]string{
		jobs.MisfireSkip:    {"missed misfire", "missed misfire", "missed misfire"},
		jobs.MisfireRunOnce: {"missed superseded", "missed superseded", "succeeded"},
		jobs.MisfireRunAll:  {"succeeded", "succeeded", "succeeded"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				j := job(t, "job", time.Hour, "orders")
				j.Misfire = policy
				stop := c.start(c.options("a", takes(time.Second), j))
				// the job is registered: its scheduled times count from now on
				time.Sleep(time.Second)
				stop()
				time.Sleep(3*time.Hour + 30*time.Minute)
				stop = c.start(c.options("a", takes(time.Second), j))
				time.Sleep(time.Minute)
				stop()
				if got := c.outcomes("job"); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		})
	}
}

// After a restart, several firings of a job are late by less than the threshold. On one replica,
// the oldest one starts first.
func TestLateFiringsStartInTheOrderOfTheirScheduledTimes(t *testing.T) {
	for _, overlap := range []jobs.Overlap{jobs.OverlapSkip, jobs.OverlapQueue} {
		for _, length := range []time.Duration{0, 50 * time.Millisecond, 10 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				j := job(t, "job", 2*time.Second, "orders")
				j.Overlap = overlap
				stop := c.start(c.options("a", takes(0), j))
				time.Sleep(time.Second) // the job is registered
				stop()
				time.Sleep(20 * time.Second)
				from := time.Now()
				stop = c.start(c.options("a", takes(length), j))
				time.Sleep(time.Second)
				stop()
				runs := slices.DeleteFunc(c.runs("job"), func(r storage.Record) bool {
					return r.StartedAt == nil || r.StartedAt.Before(from)
				})
				slices.SortFunc(runs, func(a, b storage.Record) int {
					return a.StartedAt.Compare(*b.StartedAt)
				})
				if len(runs) == 0 || from.Sub(runs[0].ScheduledAt) < 19*time.Second {
					t.Fatalf("%s, %s: the oldest did not start first: %v", overlap, length, runs)
				}
				for i, r := range runs[1:] {
					if !r.ScheduledAt.After(runs[i].ScheduledAt) {
						t.Errorf("%s, %s: the firing of %s started after that of %s", overlap,
							length, r.ScheduledAt, runs[i].ScheduledAt)
					}
				}
			})
		}
	}
}

// The replicas try the late runs at once, so any of them may be the first. Then the others wait in
// the order of their scheduled times.
func TestLateRunsWaitInTheOrderOfTheirScheduledTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := job(t, "job", time.Hour, "orders")
		j.Misfire = jobs.MisfireRunAll
		startAll := func() {
			var stops []func()
			for _, name := range []string{"a", "b", "c"} {
				stops = append(stops, c.start(c.options(name, takes(time.Second), j)))
			}
			time.Sleep(30 * time.Second)
			for _, stop := range stops {
				stop()
			}
		}
		startAll()
		time.Sleep(12*time.Hour + 30*time.Minute)
		startAll()
		runs := c.runs("job")
		if len(runs) != 12 {
			t.Fatalf("got %d runs, want 12", len(runs))
		}
		slices.SortFunc(runs, func(a, b storage.Record) int {
			return a.StartedAt.Compare(*b.StartedAt)
		})
		for i, r := range runs[2:] {
			if before := runs[i+1]; !r.ScheduledAt.After(before.ScheduledAt) {
				t.Errorf("the run of %s started after that of %s", r.ScheduledAt,
					before.ScheduledAt)
			}
		}
	})
}

func TestTriggeredRunIsAdoptedOnceAndRunsBesideAScheduledTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var stops []func()
		for _, name := range []string{"a", "b"} {
			stops = append(stops,
				c.start(c.options(name, takes(time.Second), job(t, "job", time.Hour, "orders"))))
		}
		time.Sleep(5 * time.Second)
		first, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "job", Key: "key"})
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "job", Key: "key"})
		if err != nil || again.ID != first.ID {
			t.Errorf("the same key again: %s and %s, %v", first.ID, again.ID, err)
		}
		time.Sleep(5 * time.Second)
		for _, stop := range stops {
			stop()
		}
		if r := c.runs("job"); len(r) != 1 || r[0].State != jobs.Succeeded || r[0].Key != "key" ||
			r[0].Attempt != 1 {
			t.Errorf("runs: %+v", r)
		}
	})
}

// A replica with another list of servers joins and leaves. The other replica logs each once.
func TestReplicasWithDifferentServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var log bytes.Buffer
		first, second := c.options("a", nil), c.options("b", nil)
		first.LockServers, second.LockServers = "one", "two"
		first.Log = zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.InfoLevel)
		scheduler, err := engine.New(first)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- scheduler.Run(ctx) }()
		lists := func(want int) {
			t.Helper()
			time.Sleep(10 * time.Second)
			if got := scheduler.ServerLists(); got != want {
				t.Errorf("%d lists, want %d", got, want)
			}
		}
		lists(1)
		stop := c.start(second)
		lists(2)
		lists(2)
		stop()
		lists(1)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for text, want := range map[string]int{"different lists of memcached servers": 1,
			"the same list of memcached servers again": 1} {
			if got := strings.Count(log.String(), text); got != want {
				t.Errorf("%q is in the log %d times, want %d:\n%s", text, got, want,
					log.String())
			}
		}
	})
}
