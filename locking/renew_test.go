package locking_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

const (
	lease = 12 * time.Second
	third = lease / 3
	trust = lease - 2*time.Second
)

func TestRenewalAtAThirdOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := lockingtest.NewFaulty(memory.New())
		locker := start(t, faulty, locking.Options{})
		first := lock(t, locker, "a")
		time.Sleep(time.Second)
		second := lock(t, locker, "b", "c")
		renewals := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := faulty.Count(lockingtest.OpRenew); got != want {
				t.Errorf("%d renewals, want %d", got, want)
			}
		}
		time.Sleep(third - time.Second - time.Nanosecond)
		renewals(0)
		time.Sleep(time.Nanosecond)
		renewals(1)
		time.Sleep(time.Second - time.Nanosecond)
		renewals(1)
		time.Sleep(time.Nanosecond)
		renewals(3)
		release(t, second)
		time.Sleep(10 * third)
		renewals(13)
		if first.Context().Err() != nil {
			t.Errorf("ended: %v", context.Cause(first.Context()))
		}
		release(t, first)
		time.Sleep(10 * third)
		renewals(13)
	})
}

func TestLockIsLostWhenTheTrustEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		faulty := lockingtest.NewFaulty(memory.New())
		var events []locking.Event
		locker := start(t, faulty, locking.Options{
			Log:     zerolog.New(&log),
			OnEvent: func(e locking.Event) { events = append(events, e) },
		})
		k := lock(t, locker, "a")
		faulty.Always(lockingtest.Unavailable)
		time.Sleep(trust - time.Nanosecond)
		synctest.Wait()
		if k.Context().Err() != nil {
			t.Fatalf("ended early: %v", context.Cause(k.Context()))
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		cause := context.Cause(k.Context())
		var lost *locking.LostError
		if !errors.As(cause, &lost) || lost.Reason != locking.LossUnconfirmed ||
			!errors.Is(cause, locking.ErrUnavailable) {
			t.Errorf("cause: %v", cause)
		}
		if len(events) != 1 || events[0].Kind != locking.EventLost || events[0].Owner.Job != "job" {
			t.Errorf("events %+v", events)
		}
		if n := faulty.Count(lockingtest.OpRenew); n < 5 {
			t.Errorf("%d renewals were tried, want one a second", n)
		}
		if n := strings.Count(log.String(), "renewal failed"); n != 1 {
			t.Errorf("the failure was logged %d times:\n%s", n, log.String())
		}
		faulty.Choose(nil)
		if err := k.Release(t.Context()); !errors.Is(err, lost) {
			t.Errorf("release: %v", err)
		}
		release(t, lock(t, locker, "a"))
	})
}

func TestLockSurvivesAShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		faulty := lockingtest.NewFaulty(memory.New())
		locker := start(t, faulty, locking.Options{Log: zerolog.New(&log)})
		k := lock(t, locker, "a")
		// Each outage affects a renewal and some of its retries, and ends before the trust does.
		time.Sleep(700 * time.Millisecond)
		for range 5 {
			faulty.Always(lockingtest.Unavailable)
			time.Sleep(4500 * time.Millisecond)
			faulty.Choose(nil)
			time.Sleep(4500 * time.Millisecond)
		}
		synctest.Wait()
		if k.Context().Err() != nil {
			t.Errorf("ended: %v", context.Cause(k.Context()))
		}
		if failed, recovered := strings.Count(log.String(), "renewal failed"),
			strings.Count(log.String(), "renewal recovered"); failed != 5 || recovered != 5 {
			t.Errorf("logged %d failures and %d recoveries of 5:\n%s", failed, recovered,
				log.String())
		}
		release(t, k)
	})
}

// slow is a backend with slow answers.
type slow struct {
	locking.Backend
	add       time.Duration
	renew     atomic.Int64 // a time.Duration
	deadlines []time.Time  // of renewals
}

func (s *slow) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	defer time.Sleep(s.add)
	return s.Backend.Add(ctx, key, value, ttl)
}

func (s *slow) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	return lockingtest.AddEach(ctx, s, items, ttl)
}

func (s *slow) Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	deadline, _ := ctx.Deadline()
	s.deadlines = append(s.deadlines, deadline)
	if err := sleep.For(ctx, time.Duration(s.renew.Load())); err != nil {
		return fmt.Errorf("%w: %w", locking.ErrUnclear, err)
	}
	return s.Backend.Renew(ctx, key, value, ttl)
}

func TestSlowRepliesDoNotExtendTheTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{Backend: memory.New(), add: 3 * time.Second}
		locker := newLocker(t, backend, locking.Options{})
		startedAt := time.Now()
		k := lock(t, locker, "a", "b")
		<-k.Context().Done()
		if got := time.Since(startedAt); got != trust {
			t.Errorf("trusted for %v after the first request, want %v", got, trust)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{Backend: memory.New(), add: 6 * time.Second}
		locker := newLocker(t, backend, locking.Options{})
		if _, err := locker.TryAcquire(t.Context(), locking.Owner{},
			exclusive(t, "a", "b")); !errors.Is(err, locking.ErrUnavailable) {
			t.Errorf("a lock that took longer than its trust: %v", err)
		}
		if found, err := locker.Inspect(t.Context(), resources(t, "a", "b")); err != nil ||
			len(found) != 0 {
			t.Errorf("left behind: %v, %v", found, err)
		}
	})
}

func TestRenewalEndsWithTheTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{Backend: memory.New()}
		backend.renew.Store(int64(time.Hour))
		locker := start(t, backend, locking.Options{})
		startedAt := time.Now()
		k := lock(t, locker, "a")
		<-k.Context().Done()
		if got := time.Since(startedAt); got != trust {
			t.Errorf("lost after %v, want %v", got, trust)
		}
		synctest.Wait()
		if len(backend.deadlines) != 1 || !backend.deadlines[0].Equal(startedAt.Add(trust)) {
			t.Errorf("deadlines of renewals %v, want one after %v", backend.deadlines, trust)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the trust counts from before the renewal
		backend := &slow{Backend: memory.New()}
		backend.renew.Store(int64(5 * time.Second))
		locker := start(t, backend, locking.Options{})
		startedAt := time.Now()
		k := lock(t, locker, "a")
		time.Sleep(third + 4*time.Second)
		backend.renew.Store(int64(time.Hour)) // from the second renewal on
		<-k.Context().Done()
		if got := time.Since(startedAt); got != third+trust {
			t.Errorf("lost after %v, want %v", got, third+trust)
		}
	})
}

// hanging is a backend whose first renewal waits for let and then finds no key.
type hanging struct {
	*memory.Backend
	asked, let chan struct{}
}

func (h *hanging) Renew(context.Context, string, []byte, time.Duration) error {
	close(h.asked)
	<-h.let
	return locking.ErrMissing
}

func TestReleaseDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &hanging{Backend: memory.New(), asked: make(chan struct{}),
			let: make(chan struct{})}
		locker := start(t, backend, locking.Options{Restore: true})
		k := lock(t, locker, "a", "b")
		<-backend.asked
		released := make(chan error, 1)
		go func() { released <- k.Release(t.Context()) }()
		<-k.Context().Done() // it does not wait for the renewal
		close(backend.let)
		if err := <-released; err != nil && !errors.As(err, new(*locking.LostError)) {
			t.Errorf("release: %v", err)
		}
		time.Sleep(third * 2)
		if n := backend.Len(); n != 0 {
			t.Errorf("%d advisory locks were added again", n)
		}
	})
}

// unreachable is a backend whose deletions fail.
type unreachable struct{ *memory.Backend }

func (unreachable) Delete(context.Context, string, []byte) error { return locking.ErrUnavailable }

func (unreachable) DeleteAll(_ context.Context, items []locking.Item) []error {
	return slices.Repeat([]error{locking.ErrUnavailable}, len(items))
}

// A second release waits for the result of the first one. It must not wait in a mutex, because the
// time of the bubble would stand still.
func TestReleaseDuringARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker := start(t, unreachable{memory.New()}, locking.Options{Restore: true})
		k := lock(t, locker, "a")
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- k.Release(t.Context()) }()
		}
		for range 2 {
			if err := <-results; !errors.Is(err, locking.ErrUnavailable) {
				t.Errorf("release: %v", err)
			}
		}
	})
}

// crowded is a backend with slow renewals. It counts concurrent renewals.
type crowded struct {
	locking.Backend
	now, most, all atomic.Int64
	mu             sync.Mutex
}

func (c *crowded) Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	c.mu.Lock()
	c.most.Store(max(c.most.Load(), c.now.Add(1)))
	c.mu.Unlock()
	defer c.now.Add(-1)
	time.Sleep(10 * time.Millisecond)
	c.all.Add(1)
	return c.Backend.Renew(ctx, key, value, ttl)
}

func TestRenewalsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &crowded{Backend: memory.New()}
		locker := start(t, backend, locking.Options{})
		var locks []*locking.Lock
		const all = 1000
		for i := range all {
			locks = append(locks, lock(t, locker, fmt.Sprintf("t%d", i)))
		}
		time.Sleep(third + 300*time.Millisecond)
		if got := backend.all.Load(); got != all {
			t.Errorf("%d of %d were renewed within 0.3 s", got, all)
		}
		if most := backend.most.Load(); most < 100 || most > 256 {
			t.Errorf("%d renewals at a time, want 100 to 256", most)
		}
		for _, k := range locks {
			release(t, k)
		}
	})
}

func TestLocksAfterTheEndOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker := newLocker(t, memory.New(), locking.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- locker.Run(ctx) }()
		k := lock(t, locker, "a")
		time.Sleep(third + time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		startedAt := time.Now()
		<-k.Context().Done()
		if got := time.Since(startedAt); got != trust-time.Second {
			t.Errorf("lost %v after the end of Run, want %v", got, trust-time.Second)
		}
	})
}

func TestRestoredLocksSurviveALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := lockingtest.NewFaulty(memory.New())
		restored := 0
		locker := start(t, faulty, locking.Options{Restore: true, OnEvent: func(e locking.Event) {
			if e.Kind == locking.EventRestored {
				restored++
			}
		}})
		k := lock(t, locker, "a", "b")
		faulty.Always(lockingtest.Unavailable)
		time.Sleep(10 * lease)
		faulty.Choose(nil)
		time.Sleep(third)
		synctest.Wait()
		if k.Context().Err() != nil || restored != 2 {
			t.Errorf("ended: %v; %d of 2 advisory locks restored", context.Cause(k.Context()),
				restored)
		}
		release(t, k)
	})
}
