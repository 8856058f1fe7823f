package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// faultyStore is a store in which tests delay starts and let sessions expire.
type faultyStore struct {
	storage.Store
	afterStart time.Duration // delay of the reply to a start
	down       atomic.Bool   // sessions cannot be opened or renewed
	dead       atomic.Bool   // no other call works either
}

func (f *faultyStore) End(ctx context.Context, session uuid.UUID) error {
	if f.dead.Load() {
		return fmt.Errorf("session end: %w", storage.ErrUnavailable)
	}
	return f.Store.End(ctx, session)
}

func (f *faultyStore) Sweep(ctx context.Context) (storage.Swept, error) {
	if f.dead.Load() {
		return storage.Swept{}, fmt.Errorf("sweep: %w", storage.ErrUnavailable)
	}
	return f.Store.Sweep(ctx)
}

func (f *faultyStore) ExpireDisconnected(ctx context.Context, session uuid.UUID) (
	storage.Disconnected, error) {
	if f.dead.Load() {
		return storage.Disconnected{},
			fmt.Errorf("search for disconnected sessions: %w", storage.ErrUnavailable)
	}
	return f.Store.ExpireDisconnected(ctx, session)
}

func (f *faultyStore) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	if f.dead.Load() {
		return nil, fmt.Errorf("start: %w", storage.ErrUnavailable)
	}
	results, err := f.Store.Start(ctx, session, requests)
	time.Sleep(f.afterStart)
	return results, err
}

func (f *faultyStore) Open(ctx context.Context, s storage.Session) error {
	if f.down.Load() || f.dead.Load() {
		return fmt.Errorf("session opening: %w", storage.ErrUnavailable)
	}
	return f.Store.Open(ctx, s)
}

func (f *faultyStore) Heartbeat(ctx context.Context, session uuid.UUID,
	v storage.ReplicaStatus) (storage.HeartbeatReply, error) {
	if f.down.Load() || f.dead.Load() {
		return storage.HeartbeatReply{}, fmt.Errorf("heartbeat: %w", storage.ErrUnavailable)
	}
	return f.Store.Heartbeat(ctx, session, v)
}

// slowLocks delays each add. If ctx ends first, the add fails.
type slowLocks struct {
	locking.Backend
	after time.Duration
}

func (s slowLocks) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if sleep.For(ctx, s.after) != nil {
		return fmt.Errorf("%w: %w", locking.ErrUnavailable, ctx.Err())
	}
	return s.Backend.Add(ctx, key, value, ttl)
}

// AddAll implements locking.Backend.
func (s slowLocks) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	return lockingtest.AddEach(ctx, s, items, ttl)
}

func (c *cluster) slowLocker(after time.Duration) *locking.Locker {
	c.t.Helper()
	l, err := locking.New(slowLocks{c.locks, after},
		locking.Options{Namespace: c.store.ClusterID().String(), Lease: 30 * time.Second,
			Restore: true, Log: zerolog.Nop()})
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// heldStore is a store in which the row lock of one job is held by another client. The starts of a
// job wait for a paused client, and the finishes wait for the job's own transaction.
type heldStore struct {
	storage.Store
	starts, finishes string // the job whose calls wait
	from, until      time.Time
	runs             sync.Map // runs of the job, by id
	// a finish of the job lacked the mark that its handler was abandoned
	unsaid atomic.Bool
}

// heldError waits for the lock timeout and returns the error of a store whose row lock is held.
func (h *heldStore) heldError(what string) error {
	time.Sleep(time.Second)
	return fmt.Errorf("%s: %w", what, storage.ErrRowHeld)
}

func (h *heldStore) held() bool { return time.Now().After(h.from) && time.Now().Before(h.until) }

func (h *heldStore) Finish(ctx context.Context, requests []storage.FinishRequest) ([]bool, error) {
	needed := slices.ContainsFunc(requests, func(r storage.FinishRequest) bool {
		job, _ := h.runs.Load(r.Run)
		if job == h.finishes && !r.LeftBehind {
			h.unsaid.Store(true)
		}
		return job == h.finishes
	})
	if needed && h.held() {
		return nil, h.heldError("finish")
	}
	return h.Store.Finish(ctx, requests)
}

func (h *heldStore) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	for _, r := range requests {
		h.runs.Store(r.Run, r.Firing.Job)
	}
	needed := slices.ContainsFunc(requests, func(r storage.StartRequest) bool {
		return r.Firing.Job == h.starts
	})
	if needed && h.held() {
		return nil, h.heldError("start")
	}
	return h.Store.Start(ctx, session, requests)
}

func TestLockedRowDelaysOtherStartsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		stuck, other := once(t, "stuck", 10*time.Second, "orders"), job(t, "other", time.Second)
		// without it, a firing that begins late would delay the next, which this test is not about
		other.Overlap = jobs.OverlapAllow
		o := c.options("a", takes(time.Millisecond), stuck, other)
		o.Store = &heldStore{Store: c.store, starts: "stuck", from: time.Now(),
			until: time.Now().Add(20 * time.Second)}
		stop := c.start(o)
		// the replica stops between two scheduled times
		time.Sleep(29*time.Second + 500*time.Millisecond)
		stop()
		if got := c.outcomes("stuck"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("stuck: %v", got)
		}
		late := 0
		for _, r := range c.runs("other") {
			if r.StartedAt == nil || r.StartedAt.Sub(r.ScheduledAt) > 100*time.Millisecond {
				late++
			}
		}
		if late > 2 {
			t.Errorf("%d starts of another job were held up", late)
		}
	})
}

// A firing that may wait for its turn, and whose job has the advisory lock on another replica,
// waits in the store for the start of that run. It delays no other start. Otherwise replicas whose
// firings are late would all wait for each other.
func TestFiringBehindARunOfItsJobDelaysNoOtherStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long := job(t, "long", 10*time.Second, "orders")
		long.Overlap = jobs.OverlapQueue
		// The run lasts for the whole test. When it ends, the second replica may get the lock, and
		// its start is then in one batch with those of the other job.
		handlers := takesBy(map[string]time.Duration{"long": 65 * time.Second, "other": 0})
		busy := c.options("first", handlers, long)
		busy.Workers = 1
		stopFirst := c.start(busy)
		time.Sleep(12 * time.Second) // a run of the first replica has the lock
		other := job(t, "other", 10*time.Second)
		o := c.options("second", handlers, long, other)
		store := &heldStore{Store: c.store, starts: "long", from: time.Now(),
			until: time.Now().Add(time.Hour)}
		o.Store = store
		stop := c.start(o)
		time.Sleep(time.Minute)
		stop()
		stopFirst()
		asked := false
		store.runs.Range(func(_, job any) bool {
			asked = asked || job == "long"
			return true
		})
		if runs := c.runs("other"); !asked || len(runs) < 5 {
			t.Errorf("got %d runs, and the other job asked for: %t", len(runs), asked)
		}
		for _, r := range c.runs("other") {
			if r.StartedAt == nil || r.StartedAt.Sub(r.ScheduledAt) > 100*time.Millisecond {
				t.Errorf("got %+v, want a start at once", r)
			}
		}
	})
}

// A firing that must not wait for its turn is skipped without a request to start it: a run of its
// job on another replica has the advisory lock and its claim.
func TestFiringThatOverlapsIsSkippedWithoutAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long := job(t, "long", 10*time.Second, "orders")
		handlers := takesBy(map[string]time.Duration{"long": 65 * time.Second})
		busy := c.options("first", handlers, long)
		busy.Workers = 1
		stopFirst := c.start(busy)
		time.Sleep(12 * time.Second) // a run of the first replica has the lock
		o := c.options("second", handlers, long)
		store := &heldStore{Store: c.store, starts: "long", from: time.Now(),
			until: time.Now().Add(time.Hour)}
		o.Store = store
		stop := c.start(o)
		time.Sleep(50 * time.Second)
		stop()
		stopFirst()
		store.runs.Range(func(run, _ any) bool {
			t.Errorf("run %v was asked to start", run)
			return true
		})
		runs := c.runs("long")
		if len(runs) != 6 {
			t.Fatalf("got %d runs, want one for each scheduled time", len(runs))
		}
		for _, r := range runs[1:] {
			if r.State != jobs.Skipped || r.Reason != reasons.Overlap || r.BlockedBy == nil ||
				r.BlockedBy.Resource != "job:long" ||
				r.BlockedBy.Holder.Run != runs[0].ID.String() {
				t.Errorf("got %+v, want it skipped because of the first run", r)
			}
		}
	})
}

// Advisory locks of a run that has no claim delay a firing of its job for less than a second. The
// run may be about to start, or its release has failed.
func TestLocksWithoutAClaimDelayAFiringOfTheirJob(t *testing.T) {
	for name, c := range map[string]struct {
		release, least, most time.Duration // after the scheduled time
		deadline             time.Duration
	}{
		"left over": {time.Minute, 600 * time.Millisecond, time.Second, 0},
		"released":  {100 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 0},
		// it asks the store before its deadline
		"left over, with a deadline": {time.Minute, 100 * time.Millisecond,
			300 * time.Millisecond, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t)
				j := once(t, "job", 10*time.Second, "orders")
				j.Deadline = c.deadline
				o := cl.options("a", takes(0), j)
				replica, stop := cl.begin(o)
				time.Sleep(9 * time.Second)
				lock, err := o.Locker.TryAcquireIn(t.Context(), replica.Session(), locking.Owner{
					Replica: "b", Job: "job", Run: uuid.NewString()}, j.Resources)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second + c.release)
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				stop()
				runs := cl.runs("job")
				if len(runs) != 1 || runs[0].State != jobs.Succeeded {
					t.Fatalf("got %+v, want one run", runs)
				}
				delay := runs[0].StartedAt.Sub(runs[0].ScheduledAt)
				if delay < c.least || delay > c.most {
					t.Errorf("it started %s late, want %s to %s", delay, c.least, c.most)
				}
			})
		})
	}
}

// The first of several late firings of a job meets advisory locks without a claim, and tries again
// for a while. It keeps the only worker meanwhile. If the next firing had got the worker, the two
// would wait for each other.
func TestLateFiringsPassTheOnlyWorkerOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := job(t, "job", 5*time.Second, "orders")
		o := c.options("a", takes(0), j)
		o.Workers = 1
		stop := c.start(o)
		time.Sleep(time.Second) // the job is registered
		stop()
		lock, err := o.Locker.TryAcquireIn(t.Context(), uuid.New(), locking.Owner{
			Replica: "b", Job: "job", Run: uuid.NewString()}, j.Resources)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(22 * time.Second) // four firings are late
		stop = c.start(o)
		time.Sleep(2 * time.Second)
		stop()
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if got := c.outcomes("job"); !slices.Contains(got, "succeeded") || len(got) < 4 {
			t.Errorf("got %v, want an end of each late firing", got)
		}
	})
}

// A firing whose start waits for a row lock queues for a worker again, and releases its locks
// meanwhile, because the wait has no known end.
func TestFiringThatQueuesForAWorkerHoldsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		stuck, long := once(t, "stuck", 10*time.Second, "orders"),
			once(t, "long", 11*time.Second, "sales")
		o := c.options("a", takes(time.Minute), stuck, long)
		o.Workers = 1
		o.Store = &heldStore{Store: c.store, starts: "stuck", from: time.Now(),
			until: time.Now().Add(11500 * time.Millisecond)}
		stop := c.start(o)
		stopOther := c.start(c.options("b", takes(time.Second),
			once(t, "other", 20*time.Second, "orders")))
		time.Sleep(3 * time.Minute)
		stopOther()
		stop()
		if r := c.runs("other"); len(r) != 1 || r[0].State != jobs.Succeeded ||
			r[0].StartedAt.Sub(r[0].ScheduledAt) > time.Second {
			t.Errorf("other: %+v, want that it ran at once", r)
		}
		if got := c.outcomes("stuck"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("stuck: %v", got)
		}
	})
}

func TestAbandonedHandlerDelaysNoFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		stuck, other := once(t, "stuck", 10*time.Second, "orders"), job(t, "other", time.Second)
		stuck.Timeout = 5 * time.Second
		ignores := jobs.Handle("work", func(_ context.Context, run *jobs.Run, _ struct{}) error {
			if run.Job == "stuck" {
				time.Sleep(20 * time.Second)
			}
			return nil
		})
		o := c.options("a", []jobs.Registration{ignores}, stuck, other)
		store := &heldStore{Store: c.store, finishes: "stuck", from: time.Now(),
			until: time.Now().Add(30 * time.Second)}
		o.Store = store
		stop := c.start(o)
		// the replica stops between two scheduled times
		time.Sleep(39*time.Second + 500*time.Millisecond)
		stop()
		if got := c.outcomes("stuck"); !slices.Equal(got, []string{"timed_out timeout"}) {
			t.Errorf("stuck: %v", got)
		}
		if store.unsaid.Load() {
			t.Error(
				"the store was not told that the handler was left behind: its transaction goes on")
		}
		for _, r := range c.runs("other") {
			if r.FinishedAt == nil || r.FinishedAt.Sub(*r.StartedAt) > 100*time.Millisecond {
				t.Errorf("held up: %+v", r)
			}
		}
	})
}

func TestReplicaWithAnOldDefinitionDoesNotWinTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := job(t, "job", 30*time.Second), job(t, "job", 30*time.Second)
		before.Misfire, after.Misfire = jobs.MisfireSkip, jobs.MisfireSkip
		after.Timeout = time.Minute
		stopOld := c.start(c.options("old", takes(time.Second), before))
		time.Sleep(2 * time.Second)
		o := c.options("new", takes(time.Second), after)
		o.Locker = c.slowLocker(time.Millisecond) // the old replica is always first at the gate
		stopNew := c.start(o)
		time.Sleep(100 * time.Second)
		stopNew()
		stopOld()
		if got := c.outcomes("job"); !slices.Equal(got,
			[]string{"succeeded", "succeeded", "succeeded"}) {
			t.Errorf("got %v", got)
		}
	})
}

// A start that is granted when the grace period has ended must not call the handler: its context
// has ended, so the firing would be lost. Another replica can run it.
func TestGracePeriodEndsARunThatIsStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		called := 0
		work := jobs.Handle("work", func(context.Context, *jobs.Run, struct{}) error {
			called++
			return nil
		})
		o := c.options("a", []jobs.Registration{work}, once(t, "job", 5*time.Second, "orders"))
		o.Store, o.ShutdownGrace = &faultyStore{Store: c.store, afterStart: 2 * time.Second},
			time.Second
		stop := c.start(o)
		time.Sleep(5500 * time.Millisecond)
		start := time.Now()
		stop()
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("stop took %s with a grace of 1 s", took)
		}
		if got := c.outcomes("job"); called != 0 || !slices.Equal(got,
			[]string{"waiting no_worker"}) {
			t.Errorf("got %v and %d calls of the handler", got, called)
		}
	})
}

func TestNothingStartsAfterStopAndOthersTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := once(t, "job", 5*time.Second, "orders")
		o := c.options("a", takes(time.Second), j)
		o.Locker = c.slowLocker(2 * time.Second)
		stop := c.start(o)
		time.Sleep(7500 * time.Millisecond) // it has passed the gate and is locking its table
		stop()
		if got := c.outcomes("job"); !slices.Equal(got, []string{"waiting shutdown"}) {
			t.Errorf("after stop: %v", got)
		}
		successor := c.start(c.options("b", takes(time.Second), j))
		time.Sleep(10 * time.Second)
		successor()
		if r := c.runs("job"); len(r) != 1 || r[0].State != jobs.Succeeded || r[0].Replica != "b" {
			t.Errorf("runs: %+v", r)
		}
	})
}

func TestNothingStartsUnderALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		store := &faultyStore{Store: c.store}
		long, second := once(t, "long", 5*time.Second), once(t, "second", 22*time.Second)
		second.Misfire = jobs.MisfireSkip
		o := c.options("a", takes(time.Hour), long, second)
		o.Store, o.Workers, o.ShutdownGrace = store, 1, time.Second
		stop := c.start(o)
		time.Sleep(10 * time.Second)
		store.down.Store(true) // the session of long is lost while second waits for the only worker
		time.Sleep(18 * time.Second)
		store.down.Store(false)
		time.Sleep(time.Minute)
		if got := c.outcomes("second"); !slices.Equal(got, []string{"running"}) {
			t.Errorf("got %v", got)
		}
		stop()
	})
}

func TestRetryEndsAtMaxElapsed(t *testing.T) {
	for name, policy := range map[string]retry.Policy{
		"with a count":    {Attempts: 50, Delay: 10 * time.Second, Elapsed: time.Minute},
		"without a count": {Delay: 10 * time.Second, Elapsed: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				attempts := 0
				fails := jobs.Handle("work", func(context.Context, *jobs.Run, struct{}) error {
					attempts++
					return errors.New("no")
				})
				j := once(t, "job", 10*time.Second)
				j.Retry = policy
				stop := c.start(c.options("a", []jobs.Registration{fails}, j))
				time.Sleep(2 * time.Minute)
				stop()
				if attempts < 6 || attempts > 7 {
					t.Errorf("%d attempts every 10 s within a minute", attempts)
				}
			})
		})
	}
}

// TestOnlyTheLastAttemptEndsItsRun checks that the log has one end of a run with several attempts.
func TestOnlyTheLastAttemptEndsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		fails := jobs.Handle("work", func(context.Context, *jobs.Run, struct{}) error {
			return errors.New("no")
		})
		j := once(t, "job", 10*time.Second)
		j.Retry = retry.Policy{Attempts: 3, Delay: 10 * time.Second}
		o := c.options("a", []jobs.Registration{fails}, j)
		var log bytes.Buffer
		o.Log = zerolog.New(zerolog.SyncWriter(&log))
		stop := c.start(o)
		time.Sleep(time.Minute)
		stop()
		var ends []string
		for line := range strings.Lines(log.String()) {
			var entry struct {
				Message string
				Attempt int
			}
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(entry.Message, " ended") && entry.Attempt > 0 {
				ends = append(ends, fmt.Sprint(entry.Attempt, ": ", entry.Message))
			}
		}
		if want := []string{"1: attempt ended, another one follows",
			"2: attempt ended, another one follows", "3: run ended"}; !slices.Equal(ends, want) {
			t.Errorf("got the ends %q, want %q", ends, want)
		}
	})
}

// The time in which a run waits for its locks is not a part of its retries.
func TestRetriesCountFromTheFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		attempts := 0
		work := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			if run.Job == "long" {
				return sleep.For(ctx, 5*time.Minute)
			}
			attempts++
			return errors.New("no")
		})
		long, waits := once(t, "long", 10*time.Second, "orders"),
			once(t, "waits", 11*time.Second, "orders")
		waits.Wait = retry.Policy{Delay: time.Second, Elapsed: time.Hour}
		waits.Retry = retry.Policy{Delay: 10 * time.Second, Elapsed: time.Minute}
		stop := c.start(c.options("a", []jobs.Registration{work}, long, waits))
		time.Sleep(10 * time.Minute)
		stop()
		if attempts < 6 || attempts > 7 {
			t.Errorf("%d attempts every 10 s within a minute", attempts)
		}
	})
}

// rowsHeld is a store in which a transaction holds the rows of runs while held is set.
type rowsHeld struct {
	storage.Store
	held atomic.Bool
}

func (s *rowsHeld) Note(ctx context.Context, session uuid.UUID,
	notes []storage.Note) ([]bool, error) {
	if s.held.Load() {
		return nil, fmt.Errorf("note: %w", storage.ErrRowHeld)
	}
	return s.Store.Note(ctx, session, notes)
}

func TestStopEndsWhileARowIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long, waits := once(t, "long", 10*time.Second, "orders"),
			once(t, "waits", 11*time.Second, "orders")
		waits.Wait = retry.Policy{Delay: time.Second, Elapsed: time.Hour}
		o, store := c.options("a", takes(20*time.Second), long, waits), &rowsHeld{Store: c.store}
		o.Store = store
		stop := c.start(o)
		time.Sleep(15 * time.Second)
		store.held.Store(true)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > o.ShutdownGrace+o.SessionTTL {
			t.Errorf("the replica stopped after %s", took)
		}
	})
}
