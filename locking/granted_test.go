package locking_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
	"github.com/holdfast-dev/holdfast/retry"
)

const ttl = 15 * time.Second // the default

// duo is a backend and grants, both with faults.
type duo struct {
	advisory *lockingtest.Faulty
	grants   *lockingtest.FaultyGrants
	stores   struct {
		advisory *memory.Backend
		grants   *memory.Grants
	}
}

func newDuo() *duo {
	d := &duo{}
	d.stores.advisory, d.stores.grants = memory.New(), memory.NewGrants()
	d.advisory, d.grants = lockingtest.NewFaulty(d.stores.advisory),
		lockingtest.NewFaultyGrants(d.stores.grants)
	return d
}

// other returns another replica on the same stores.
func (d *duo) other() *duo {
	o := &duo{stores: d.stores}
	o.advisory, o.grants = lockingtest.NewFaulty(d.stores.advisory),
		lockingtest.NewFaultyGrants(d.stores.grants)
	return o
}

// start returns a ready locker that runs until the test ends.
func (d *duo) start(t *testing.T, replica string) *locking.Locker {
	t.Helper()
	return d.startFor(t, replica, lease)
}

// startFor is start with a lease.
func (d *duo) startFor(t *testing.T, replica string, lease time.Duration) *locking.Locker {
	t.Helper()
	locker := start(t, d.advisory,
		locking.Options{Lease: lease, Grants: d.grants, Session: locking.Session{Replica: replica},
			Log: zerolog.Nop()})
	if err := locker.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return locker
}

func TestOptionsWithGrants(t *testing.T) {
	session := func(replica string, ttl time.Duration) locking.Session {
		return locking.Session{Replica: replica, TTL: ttl}
	}
	grants, advisory := memory.NewGrants(), memory.New()
	tests := map[string]struct {
		backend locking.Backend
		options locking.Options
		valid   bool
	}{
		"both stages":                   {advisory, locking.Options{Namespace: "n", Lease: lease, Grants: grants, Session: session("a", 0)}, true},
		"grants alone":                  {nil, locking.Options{Grants: grants, Session: session("a", 0)}, true},
		"neither":                       {nil, locking.Options{Namespace: "n", Lease: lease}, false},
		"no name":                       {nil, locking.Options{Grants: grants}, false},
		"shortest session":              {nil, locking.Options{Grants: grants, Session: session("a", time.Second)}, true},
		"session too short":             {nil, locking.Options{Grants: grants, Session: session("a", time.Second-1)}, false},
		"negative session":              {nil, locking.Options{Grants: grants, Session: session("a", -1)}, false},
		"longest session":               {nil, locking.Options{Grants: grants, Session: session("a", 24*time.Hour)}, true},
		"session too long":              {nil, locking.Options{Grants: grants, Session: session("a", 24*time.Hour+1)}, false},
		"advisory locks are still used": {advisory, locking.Options{Lease: lease, Grants: grants, Session: session("a", 0)}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := locking.New(test.backend, test.options); (err == nil) != test.valid {
				t.Errorf("got %v, want it to be valid: %v", err, test.valid)
			}
		})
	}
}

// A lock without a grant excludes no lock that has one.
func TestLockWithoutAGrantIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker := newDuo().start(t, "a")
		table, err := locking.Table("orders", "public")
		if err != nil {
			t.Fatal(err)
		}
		wanted := locking.Wanted{Owner: locking.Owner{Replica: "a", Job: "job"},
			Requests: []locking.Request{{Resource: table, Mode: locking.Exclusive}}}
		if lock, err := locker.TryAcquireIn(t.Context(), uuid.New(), wanted.Owner,
			wanted.Requests); err == nil {
			t.Errorf("got the lock %v, want an error", lock)
		}
		locker.TryAcquireEachIn(t.Context(), uuid.New(), []locking.Wanted{wanted},
			func(_ int, lock *locking.Lock, err error) {
				if err == nil {
					t.Errorf("got the lock %v of several, want an error", lock)
				}
			})
	})
}

// Without a backend there is no advisory lock to poll, so its absence is no failure.
func TestWaitWithoutABackendWarnsOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grants := memory.NewGrants()
		var log bytes.Buffer
		locker := func(replica string) *locking.Locker {
			l := start(t, nil, locking.Options{Grants: grants,
				Session: locking.Session{Replica: replica},
				Log:     zerolog.New(&log).Level(zerolog.WarnLevel)})
			if err := l.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			return l
		}
		table, err := locking.Table("orders", "public")
		if err != nil {
			t.Fatal(err)
		}
		requests := []locking.Request{{Resource: table, Mode: locking.Exclusive}}
		lock, err := locker("a").TryAcquire(t.Context(), locking.Owner{Job: "first"}, requests)
		if err != nil {
			t.Fatal(err)
		}
		_, err = locker("b").Acquire(t.Context(), locking.Owner{Job: "second"}, requests,
			retry.Policy{Attempts: 3, Delay: time.Second})
		if !errors.Is(err, locking.ErrHeld) {
			t.Errorf("got %v, want ErrHeld", err)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if log.Len() > 0 {
			t.Errorf("it logged %s", &log)
		}
	})
}

func TestLockerNeedsBackendOrGrants(t *testing.T) {
	locker, err := locking.New(nil,
		locking.Options{Grants: memory.NewGrants(), Session: locking.Session{Replica: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Gate(t.Context(), "g", time.Minute); !errors.Is(err,
		locking.ErrUnavailable) {
		t.Errorf("gate: %v", err)
	}
	if err := locker.Clear(t.Context(), exclusive(t, "a"), "run"); err != nil {
		t.Errorf("clear: %v", err)
	}
}

func TestLocksEndWhenTheirSessionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		locker := d.start(t, "a")
		k := lock(t, locker, "a")
		confirmed := time.Now() // the session was opened at this time
		d.grants.Always(lockingtest.Unavailable)
		time.Sleep(ttl - time.Nanosecond)
		synctest.Wait()
		if k.Context().Err() != nil {
			t.Fatalf("ended %s after its session was confirmed: %v", time.Since(confirmed),
				context.Cause(k.Context()))
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		var lost *locking.LostError
		if cause := context.Cause(k.Context()); !errors.As(cause, &lost) ||
			lost.Reason != locking.LossSession || !errors.Is(cause, locking.ErrSessionLost) {
			t.Errorf("cause: %v", cause)
		}
		d.grants.Choose(nil)
		if err := k.Release(t.Context()); !errors.Is(err, locking.ErrSessionLost) {
			t.Errorf("release: %v", err)
		}
	})
}

func TestSessionLastsForManyTTLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		k := lock(t, d.start(t, "a"), "a")
		heartbeats := d.grants.Count(lockingtest.OpBeat)
		time.Sleep(10*ttl + time.Millisecond)
		synctest.Wait()
		if got := d.grants.Count(lockingtest.OpBeat) - heartbeats; got != 30 {
			t.Errorf("%d heartbeats in ten TTLs", got)
		}
		if sweeps := d.grants.Count(lockingtest.OpSweep); sweeps < 30 {
			t.Errorf("%d sweeps in ten TTLs", sweeps)
		}
		if k.Context().Err() != nil {
			t.Errorf("ended: %v", context.Cause(k.Context()))
		}
		release(t, k)
	})
}

// TestQueuedAfterASecond checks that a caller that waits for an advisory lock calls the grants
// once, after a second.
func TestQueuedAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		holder, waiting := d.start(t, "a"), d.other()
		waiter := waiting.start(t, "b")
		k := lock(t, holder, "m")
		done := make(chan error, 1)
		go func() {
			_, err := waiter.Acquire(t.Context(), locking.Owner{}, exclusive(t, "m"),
				retry.Policy{Elapsed: time.Hour, Delay: 100 * time.Millisecond})
			done <- err
		}()
		asked := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := waiting.grants.Count(lockingtest.OpGrant); got != want {
				t.Errorf("got %d calls to the grants, want %d", got, want)
			}
		}
		time.Sleep(time.Second - time.Nanosecond)
		asked(0)
		time.Sleep(time.Nanosecond)
		asked(1)
		time.Sleep(time.Minute)
		asked(1)
		if adds := waiting.advisory.Count(lockingtest.OpAdd); adds != 1 {
			t.Errorf("%d adds while the advisory lock existed", adds)
		}
		release(t, k)
		if err := <-done; err != nil {
			t.Error(err)
		}
		asked(2)
	})
}

// TestBlockerWithoutAdvisoryLockIsReadOncePerTry counts calls if the advisory locks do not show the
// blocker.
func TestBlockerWithoutAdvisoryLockIsReadOncePerTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		holder, waiting := d.start(t, "a"), d.other()
		waiter := waiting.start(t, "b")
		shared := exclusive(t, "m")
		shared[0].Mode = locking.Shared
		if _, err := holder.TryAcquire(t.Context(), locking.Owner{}, shared); err != nil {
			t.Fatal(err)
		}
		_, err := waiter.Acquire(t.Context(), locking.Owner{}, exclusive(t, "m"),
			retry.Policy{Attempts: 10, Delay: 100 * time.Millisecond})
		if !errors.Is(err, locking.ErrHeld) {
			t.Errorf("got %v", err)
		}
		if got := waiting.grants.Count(lockingtest.OpGrant); got != 10 {
			t.Errorf("got %d calls to the grants in 10 tries", got)
		}
		if adds := waiting.advisory.Count(lockingtest.OpAdd); adds != 1 {
			t.Errorf("%d advisory locks were added, want one before it was queued", adds)
		}
	})
}

func TestBackendIsProbedEveryTwoSecondsInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		locker := d.start(t, "a")
		d.advisory.Always(lockingtest.Unavailable)
		for range 100 { // in 10 s
			release(t, lock(t, locker, "a", "b"))
			time.Sleep(100 * time.Millisecond)
		}
		if adds := d.advisory.Count(lockingtest.OpAdd); adds != 5 {
			t.Errorf("%d adds of 200, want one in two seconds", adds)
		}
		d.advisory.Choose(nil)
		time.Sleep(2 * time.Second)
		release(t, lock(t, locker, "a", "b"))
		if n := d.stores.advisory.Len(); n != 0 {
			t.Errorf("%d advisory locks left", n)
		}
	})
}

func TestConcurrentCallsAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 200
		d := newDuo()
		d.grants = lockingtest.NewFaultyGrants(slowGrants{d.stores.grants})
		locker := d.start(t, "a")
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				k, err := locker.TryAcquire(t.Context(), locking.Owner{},
					exclusive(t, fmt.Sprint(i), fmt.Sprint(i, "/b"))[:1])
				if err != nil {
					t.Error(err)
					return
				}
				if err := k.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if grants, releases := d.grants.Count(lockingtest.OpGrant),
			d.grants.Count(lockingtest.OpRelease); grants > 3 || releases > 3 {
			t.Errorf("%d grants and %d releases for %d locks at once", grants, releases, callers)
		}
	})
}

// slowGrants take a millisecond for a call, as a store does.
type slowGrants struct{ locking.Grants }

func (s slowGrants) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	time.Sleep(time.Millisecond)
	return s.Grants.Grant(ctx, session, requests)
}

func (s slowGrants) Release(ctx context.Context, tokens []locking.Token) (
	[]locking.ReleaseResult, error) {
	time.Sleep(time.Millisecond)
	return s.Grants.Release(ctx, tokens)
}

// TestBatchesAreBounded requests many large locks concurrently.
func TestBatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		sizes := &sizes{Grants: slowGrants{d.stores.grants}}
		locker := start(t, nil, locking.Options{Grants: sizes,
			Session: locking.Session{Replica: "a"}})
		if err := locker.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 12 {
			var names []string
			for j := range 300 {
				names = append(names, fmt.Sprintf("%d/%d", i, j))
			}
			all.Go(func() {
				if _, err := locker.TryAcquire(t.Context(), locking.Owner{},
					exclusive(t, names...)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if sizes.largest > locking.MaxGrants || sizes.largest < 900 {
			t.Errorf("the largest call named %d resources", sizes.largest)
		}
	})
}

// sizes records the number of resources of the largest call.
type sizes struct {
	locking.Grants
	largest int
}

func (s *sizes) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	named := 0
	for _, r := range requests {
		named += len(r.Requests)
	}
	s.largest = max(s.largest, named)
	return s.Grants.Grant(ctx, session, requests)
}

// TestCallerReturnsFromHangingGrantsWhenItsContextEnds makes the store accept a call and not
// answer.
func TestCallerReturnsFromHangingGrantsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		hang := &stalled{Grants: d.stores.grants}
		locker := start(t, nil, locking.Options{Grants: hang,
			Session: locking.Session{Replica: "a"}})
		if err := locker.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		startedAt := time.Now()
		if _, err := locker.TryAcquire(ctx, locking.Owner{}, exclusive(t, "a")); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(startedAt); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		time.Sleep(ttl) // the call landed, and a heartbeat gave its claim back
		synctest.Wait()
		heartbeat, err := d.stores.grants.Heartbeat(t.Context(), hang.session)
		if err != nil || len(heartbeat.Claims) != 0 || !hang.landed {
			t.Errorf("claims left: %+v, %v; landed: %v", heartbeat, err, hang.landed)
		}
	})
}

// TestInterruptedTryNamesTheBlocker lets the deadline pass during a call to the grants.
func TestInterruptedTryNamesTheBlocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		holder := d.start(t, "a")
		locker := start(t, nil, locking.Options{Grants: &tired{Grants: d.stores.grants},
			Session: locking.Session{Replica: "b"}})
		if err := locker.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		lock(t, holder, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := locker.Acquire(ctx, locking.Owner{}, exclusive(t, "a"),
			retry.Policy{Attempts: 10, Delay: 100 * time.Millisecond})
		var held *locking.HeldError
		var exhausted *retry.ExhaustedError
		if !errors.As(err, &held) || !errors.As(err, &exhausted) || exhausted.Attempts != 2 ||
			exhausted.Waited != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(ttl) // until the store's call has timed out
	})
}

// TestLockWithLostReplyAsksTheGrantsFirst adds another advisory lock before the retry. The lock has
// been granted, so the retry must not wait for that advisory lock.
func TestLockWithLostReplyAsksTheGrantsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		locker := d.start(t, "a")
		d.grants.Times(lockingtest.OpGrant, lockingtest.LoseReply, 1)
		time.AfterFunc(50*time.Millisecond, func() {
			if err := d.stores.advisory.Add(t.Context(), "test:path:m", []byte("other"),
				time.Minute); err != nil {
				t.Error(err)
			}
		})
		startedAt := time.Now()
		k, err := locker.Acquire(t.Context(), locking.Owner{}, exclusive(t, "m"),
			retry.Policy{Attempts: 100, Delay: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(startedAt); took != 100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		release(t, k)
	})
}

// TestLockGrantedAtTheEndOfItsSessionIsReleased delays the answer until the session is no longer
// trusted.
func TestLockGrantedAtTheEndOfItsSessionIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		d.grants = lockingtest.NewFaultyGrants(sluggish{d.stores.grants})
		locker := d.start(t, "a")
		d.grants.Choose(func(op lockingtest.Op) lockingtest.Fault {
			if op == lockingtest.OpBeat {
				return lockingtest.Unavailable
			}
			return lockingtest.None
		})
		time.Sleep(ttl - time.Second)
		k, err := locker.TryAcquire(t.Context(), locking.Owner{}, exclusive(t, "m"))
		if k != nil || !errors.Is(err, locking.ErrSessionLost) ||
			!errors.Is(err, locking.ErrNoSession) {
			t.Errorf("got %v, %v", k, err)
		}
		if n := d.stores.advisory.Len(); n != 0 {
			t.Errorf("%d advisory locks left", n)
		}
	})
}

// sluggish answers a grant after four seconds.
type sluggish struct{ locking.Grants }

func (s sluggish) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	results, err := s.Grants.Grant(ctx, session, requests)
	time.Sleep(4 * time.Second)
	return results, err
}

// TestAdvisoryLocksReturnSoonAfterAnOutage checks that waiters stop polling the grants a second
// after the outage.
func TestAdvisoryLocksReturnSoonAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		locker := d.start(t, "a")
		d.advisory.Always(lockingtest.Unavailable)
		k := lock(t, locker, "m")
		time.Sleep(1500 * time.Millisecond)
		d.advisory.Choose(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := d.stores.advisory.Len(); n != 1 {
			t.Errorf("%d advisory locks", n)
		}
		second := lock(t, locker, "n")
		if n := d.stores.advisory.Len(); n != 2 {
			t.Errorf("%d advisory locks after the outage", n)
		}
		release(t, k)
		release(t, second)
	})
}

// TestGrantThatFindsTheSessionLostEndsItsLocks checks that the locks end before the next heartbeat.
func TestGrantThatFindsTheSessionLostEndsItsLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		locker := d.start(t, "a")
		k := lock(t, locker, "m")
		succeeds := locking.Session{ID: uuid.New(), Replica: "a", TTL: time.Hour,
			ReplaceEarlier: true}
		if err := d.stores.grants.OpenSession(t.Context(), succeeds); err != nil {
			t.Fatal(err)
		}
		startedAt := time.Now()
		if _, err := locker.TryAcquire(t.Context(), locking.Owner{},
			exclusive(t, "n")); !errors.Is(err, locking.ErrSessionLost) {
			t.Errorf("got %v", err)
		}
		<-k.Context().Done()
		if err := locker.Ready(t.Context()); err != nil || !time.Now().Equal(startedAt) {
			t.Errorf("after %s: %v", time.Since(startedAt), err)
		}
	})
}

// TestHangingSweepDoesNotDelayHeartbeats makes every sweep hang.
func TestHangingSweepDoesNotDelayHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		startedAt := time.Now()
		locker := start(t, nil, locking.Options{Grants: unswept{memory.NewGrants()},
			Session: locking.Session{Replica: "a", TTL: 3 * time.Second}})
		if err := locker.Ready(t.Context()); err != nil || time.Since(startedAt) > time.Second {
			t.Fatalf("after %s: %v", time.Since(startedAt), err)
		}
		k := lock(t, locker, "m")
		time.Sleep(time.Minute)
		release(t, k)
	})
}

// unswept has sweeps that hang until their context ends.
type unswept struct{ locking.Grants }

func (unswept) Sweep(ctx context.Context) ([]locking.Released, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", locking.ErrUnavailable, ctx.Err())
}

// tired answers only the first grant.
type tired struct {
	locking.Grants
	asked int
}

func (g *tired) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	if g.asked++; g.asked == 1 {
		return g.Grants.Grant(ctx, session, requests)
	}
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", locking.ErrUnavailable, ctx.Err())
}

// stalled answers a grant after its context has ended. The grant takes effect.
type stalled struct {
	locking.Grants
	session uuid.UUID
	landed  bool
}

func (h *stalled) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	<-ctx.Done()
	h.session = session
	results, err := h.Grants.Grant(context.WithoutCancel(ctx), session, requests)
	h.landed = err == nil && results[0].Token != 0
	return nil, fmt.Errorf("%w: %w", locking.ErrUnavailable, ctx.Err())
}

// TestStopIsPromptDuringAnOutage ends Run while the backend and the grants do not answer.
func TestStopIsPromptDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		locker := newLocker(t, d.advisory,
			locking.Options{Grants: d.grants, Session: locking.Session{Replica: "a"}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- locker.Run(ctx) }()
		if err := locker.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		var locks []*locking.Lock
		for i := range 100 {
			locks = append(locks, lock(t, locker, fmt.Sprint(i)))
		}
		d.advisory.Always(lockingtest.Unavailable)
		d.grants.Always(lockingtest.Unavailable)
		startedAt := time.Now()
		cancel()
		synctest.Wait()
		for _, k := range locks {
			if k.Context().Err() == nil {
				t.Fatal("lock after the end of Run's context: got it active, want it ended")
			}
		}
		if err := <-ended; err != nil || time.Since(startedAt) > 10*time.Second {
			t.Errorf("ended after %s: %v", time.Since(startedAt), err)
		}
	})
}

// late delays the answers of heartbeats while a lock waits.
type late struct{ locking.Grants }

func (l late) Heartbeat(ctx context.Context, session uuid.UUID) (locking.HeartbeatReply, error) {
	heartbeat, err := l.Grants.Heartbeat(ctx, session)
	if len(heartbeat.Waiting) > 0 {
		time.Sleep(2 * time.Second)
	}
	return heartbeat, err
}

// A heartbeat's answer may have a waiter that was granted meanwhile. The locker must not withdraw
// it.
func TestWaiterGrantedDuringAHeartbeatKeepsItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		first := lock(t, d.start(t, "replica-1"), "a")
		second := start(t, d.advisory,
			locking.Options{Grants: late{d.grants}, Session: locking.Session{Replica: "replica-2"},
				Log: zerolog.Nop()})
		if err := second.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() { // the heartbeat at 5 s returns the waiter, with its answer at 7 s
			time.Sleep(6 * time.Second)
			if err := first.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		granted, err := second.Acquire(t.Context(), locking.Owner{}, exclusive(t, "a"),
			retry.Policy{Elapsed: 10 * time.Second, Delay: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := granted.Release(t.Context()); err != nil {
			t.Errorf("the lock ended: %v", err)
		}
	})
}
