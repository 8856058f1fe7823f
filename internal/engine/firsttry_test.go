package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// requestBackend counts the requests that add keys. It calls beforeLocks before each one that adds
// locks, if it is set.
type requestBackend struct {
	locking.Backend
	requests    atomic.Int64
	beforeLocks atomic.Pointer[func()]
}

func (b *requestBackend) Add(ctx context.Context, key string, value []byte,
	ttl time.Duration) error {
	b.requests.Add(1)
	return b.Backend.Add(ctx, key, value, ttl)
}

// AddAll implements locking.Backend.
func (b *requestBackend) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	b.requests.Add(1)
	if before := b.beforeLocks.Load(); before != nil && !strings.Contains(items[0].Key, ":gate:") {
		(*before)()
	}
	return b.Backend.AddAll(ctx, items, ttl)
}

// lockedBy returns options of a replica whose locks are in the backend.
func (c *cluster) lockedBy(b *requestBackend, handlers []jobs.Registration,
	table ...jobs.Job) engine.Options {
	c.t.Helper()
	b.Backend = c.locks
	o := c.options("a", handlers, table...)
	var err error
	if o.Locker, err = locking.New(b, locking.Options{Namespace: c.store.ClusterID().String(),
		Lease: 30 * time.Second, Restore: true, Log: zerolog.Nop()}); err != nil {
		c.t.Fatal(err)
	}
	return o
}

// The firings of quick jobs that begin together pass their gates in one request, and take their
// locks in another one.
func TestFiringsThatBeginTogetherShareTheirFirstTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handler, b := &slowing{}, &requestBackend{}
		const firings = 40
		stop := c.start(c.lockedBy(b, handler.registrations(), quickJobs(t, firings)...))
		time.Sleep(90 * time.Second)
		first := b.requests.Load()
		time.Sleep(time.Minute)
		stop()
		if second := b.requests.Load() - first; second != 2 {
			t.Errorf("%d firings added their gates and locks in %d requests, want 2", firings,
				second)
		}
		if calls := handler.calls.Load(); calls != 2*firings {
			t.Errorf("%d calls, want %d", calls, 2*firings)
		}
	})
}

// A firing whose job is removed while its locks are taken releases them, and is skipped.
func TestFiringOfAJobRemovedDuringItsFirstTryReleasesItsLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := &requestBackend{}
		o := c.lockedBy(b, takes(0), once(t, "job", time.Minute, "table"))
		replica, stop := c.begin(o)
		removeJobs := func() {
			if _, err := replica.SetJobs(nil); err != nil {
				t.Error(err)
			}
		}
		b.beforeLocks.Store(&removeJobs)
		time.Sleep(time.Minute + 10*time.Second)
		if got := c.outcomes("job"); len(got) != 1 ||
			!strings.HasPrefix(got[0], string(jobs.Skipped)) {
			t.Errorf("got %v, want a skip", got)
		}
		lock, err := o.Locker.TryAcquire(t.Context(), locking.Owner{Job: "other"},
			tables(t, "table"))
		if err != nil {
			t.Errorf("the table is held after the skip: %v", err)
		} else if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
		stop()
	})
}

// A firing that wants more names, and gets no lock, does not refuse the firings that begin together
// with it. Otherwise the firing that wants one name would be skipped, because it tries only once.
func TestFiringWithoutItsLocksRefusesNoneThatBeginsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b, handler := &requestBackend{}, &slowing{}
		var table []jobs.Job
		for i := range 20 {
			// all begin together, in an order that the test does not know
			free, held := fmt.Sprint("free-", i), fmt.Sprint("held-", i)
			one, both := once(t, fmt.Sprint("one-", i), 2*time.Minute, free),
				once(t, fmt.Sprint("both-", i), 2*time.Minute, free, held)
			one.Wait, both.Wait = retry.Policy{Attempts: 1}, retry.Policy{Attempts: 1}
			one.Misfire, both.Misfire = jobs.MisfireSkip, jobs.MisfireSkip
			table = append(table, one, both)
		}
		table = append(table, once(t, "first", time.Minute)) // from now on, all jobs count as quick
		o := c.lockedBy(b, handler.registrations(), table...)
		for i := range 20 {
			if _, err := o.Locker.TryAcquire(t.Context(), locking.Owner{Job: "blocker"},
				tables(t, fmt.Sprint("held-", i))); err != nil {
				t.Fatal(err)
			}
		}
		stop := c.start(o)
		time.Sleep(3 * time.Minute)
		stop()
		for i := range 20 {
			if got := c.outcomes(fmt.Sprint("one-", i)); len(got) != 1 ||
				got[0] != string(jobs.Succeeded) {
				t.Errorf("one-%d: got %v, want a success", i, got)
			}
		}
	})
}
