package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// countedLocks is a backend that counts the requests for advisory locks of tables.
type countedLocks struct {
	*lockWay
	adds, gets atomic.Int64
}

func (b *countedLocks) Add(ctx context.Context, key string, value []byte,
	ttl time.Duration) error {
	if strings.Contains(key, ":table:") {
		b.adds.Add(1)
	}
	return b.lockWay.Add(ctx, key, value, ttl)
}

// AddAll implements locking.Backend.
func (b *countedLocks) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	return lockingtest.AddEach(ctx, b, items, ttl)
}

func (b *countedLocks) Get(ctx context.Context, keys ...string) (map[string][]byte, error) {
	if strings.Contains(strings.Join(keys, " "), ":table:") {
		b.gets.Add(1)
	}
	return b.lockWay.Get(ctx, keys...)
}

// countedStarts is a store that counts start requests.
type countedStarts struct {
	storage.Store
	asked atomic.Int64
}

func (s *countedStarts) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	s.asked.Add(int64(len(requests)))
	return s.Store.Start(ctx, session, requests)
}

// counted replaces the locker of a replica by one whose requests are counted.
func (c *cluster) counted(o engine.Options, locks *simulatedLocks) (engine.Options, *countedLocks) {
	c.t.Helper()
	backend := &countedLocks{lockWay: &lockWay{locks: locks}}
	locker, err := locking.New(backend, locking.Options{Namespace: c.store.ClusterID().String(),
		Lease: 30 * time.Second, Restore: true, Log: zerolog.Nop()})
	if err != nil {
		c.t.Fatal(err)
	}
	o.Locker = locker
	return o, backend
}

func newSimulatedLocks() *simulatedLocks {
	locks := &simulatedLocks{}
	locks.flush()
	return locks
}

// A firing that waits on another replica than the holder starts when the holder releases its table,
// and not when its next try comes.
func TestReleaseOnAnotherReplicaWakesAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		holder := once(t, "holder", 10*time.Second, "orders")
		waits := once(t, "waits", 11*time.Second, "orders")
		waits.Wait = retry.Policy{Elapsed: time.Hour, Delay: 7 * time.Minute,
			Backoff: retry.Constant}
		stop := c.start(c.options("a", takes(20*time.Second), holder))
		stopOther := c.start(c.options("b", takes(time.Second), waits))
		time.Sleep(time.Minute)
		stop()
		stopOther()
		began := c.starts([]jobs.Job{holder, waits})
		if len(began) != 2 || began[1].Job != "waits" {
			t.Fatalf("runs: %+v, want one of each job", began)
		}
		if gap := began[1].StartedAt.Sub(*began[0].FinishedAt); gap > 150*time.Millisecond {
			t.Errorf("the firing started %s after the release", gap)
		}
	})
}

// Firings that wait for one table cost memcached as much as one of them, however often each tries.
func TestWaitingFiringsShareOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		table := []jobs.Job{once(t, "holder", 10*time.Second, "orders")}
		for i := range 50 {
			j := once(t, fmt.Sprint("waits-", i), 11*time.Second, "orders")
			j.Wait = retry.Policy{Elapsed: time.Hour, Delay: 50 * time.Millisecond,
				Backoff: retry.Constant}
			table = append(table, j)
		}
		o, backend := c.counted(c.options("a", takes(20*time.Second), table...),
			newSimulatedLocks())
		store := &countedStarts{Store: c.store}
		o.Store = store
		stop := c.start(o)
		time.Sleep(15 * time.Second)
		backend.adds.Store(0)
		backend.gets.Store(0)
		store.asked.Store(0)
		time.Sleep(10 * time.Second) // 200 tries of each
		adds, gets, asked := backend.adds.Load(), backend.gets.Load(), store.asked.Load()
		stop()
		if gets < 50 || gets > 150 || adds > 10 || asked > 10 {
			t.Errorf("10,000 tries in 10 s cost %d reads of the lock, %d adds and %d requests to "+
				"the store, want about 100 reads", gets, adds, asked)
		}
	})
}

// memcached loses a lock. The first waiting firing is woken, and the store refuses it. Then the
// firing waits for its next try.
func TestLostAdvisoryLockWakesAWaiterOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		holder := once(t, "holder", 10*time.Second, "orders")
		waits := once(t, "waits", 11*time.Second, "orders")
		waits.Reserve = locking.NeverReserve
		waits.Wait = retry.Policy{Elapsed: time.Hour, Delay: 7 * time.Minute,
			Backoff: retry.Constant}
		store := &countedStarts{Store: c.store}
		locks := newSimulatedLocks()
		o, _ := c.counted(c.options("a", takes(time.Minute), holder), locks)
		stop := c.start(o)
		other, _ := c.counted(c.options("b", takes(time.Second), waits), locks)
		other.Store = store
		stopOther := c.start(other)
		time.Sleep(15 * time.Second)
		store.asked.Store(0)
		locks.flush()
		time.Sleep(20 * time.Second)
		if asked := store.asked.Load(); asked < 1 || asked > 3 {
			t.Errorf("%d requests to the store within 20 s after the loss, want one or two", asked)
		}
		time.Sleep(time.Minute)
		stop()
		stopOther()
		began := c.starts([]jobs.Job{holder, waits})
		if len(began) == 2 && began[1].StartedAt.Before(*began[0].FinishedAt) {
			t.Errorf("the runs overlap: %+v", began)
		}
	})
}

// A firing that waits for two tables has its position in the store for both. While it waits for one
// of them, the other one is free, but no younger firing gets it. The younger firings do not ask the
// store again at each of their tries.
func TestFiringsBehindAnOlderWaiterAskTheStoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		holder := once(t, "holder", 10*time.Second, "items")
		older := once(t, "older", 12*time.Second, "items", "orders")
		older.Wait = retry.Policy{Elapsed: time.Hour, Delay: time.Second, Backoff: retry.Constant}
		older.Reserve = time.Minute
		var younger []jobs.Job
		for i := range 20 {
			j := once(t, fmt.Sprint("younger-", i), 20*time.Second, "orders")
			j.Wait = retry.Policy{Elapsed: time.Hour, Delay: 50 * time.Millisecond,
				Backoff: retry.Constant}
			younger = append(younger, j)
		}
		locks := newSimulatedLocks()
		o, _ := c.counted(c.options("a", takes(30*time.Second), holder, older), locks)
		stop := c.start(o)
		other, _ := c.counted(c.options("b", takes(time.Second), younger...), locks)
		store := &countedStarts{Store: c.store}
		other.Store = store
		stopOther := c.start(other)
		time.Sleep(11 * time.Second)
		locks.flush() // so that the store refuses the older firing and gives it a position
		time.Sleep(11 * time.Second)
		store.asked.Store(0)
		time.Sleep(10 * time.Second) // 200 tries of each younger firing
		asked := store.asked.Load()
		time.Sleep(time.Minute)
		stop()
		stopOther()
		if asked == 0 || asked > 300 {
			t.Errorf("4,000 tries in 10 s cost %d requests to the store, want about 200", asked)
		}
		began := c.starts(append([]jobs.Job{holder, older}, younger...))
		if len(began) < 3 || began[0].Job != "holder" || began[1].Job != "older" {
			t.Fatalf("the first runs are not those of the holder and the older waiter: %+v", began)
		}
		if gap := began[1].StartedAt.Sub(*began[0].FinishedAt); gap > 300*time.Millisecond {
			t.Errorf("the older waiter started %s after the holder had ended", gap)
		}
	})
}

// The second run of a job starts while the advisory locks of the first one still exist. It takes
// them when they are free, so that other firings do not ask the store while it lasts.
func TestRunTakesTheAdvisoryLocksOfTheRunBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		first := once(t, "twice", 10*time.Second, "orders")
		requests, err := first.Requests()
		if err != nil {
			t.Fatal(err)
		}
		table := []locking.Resource{requests[len(requests)-1].Resource}
		o, _ := c.counted(c.options("a", takes(20*time.Second), first), newSimulatedLocks())
		left, err := o.Locker.TryAcquire(t.Context(), locking.Owner{Replica: "b", Job: "twice",
			Run: uuid.NewString()}, requests)
		if err != nil {
			t.Fatal(err)
		}
		stop := c.start(o)
		time.Sleep(15 * time.Second)
		if err := left.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		holders, err := o.Locker.Inspect(t.Context(), table)
		if err != nil || holders[table[0]].Replica != "a" {
			t.Errorf("holders of the table during the run: %v, %v; want the run", holders, err)
		}
		time.Sleep(time.Minute)
		stop()
		if holders, err = o.Locker.Inspect(t.Context(), table); err != nil || len(holders) > 0 {
			t.Errorf("holders after the run: %v, %v; want none", holders, err)
		}
	})
}

// An operator releases the locks of a run that took its advisory locks while it ran. They are free
// at once, although the handler ignores its context.
func TestLateAdvisoryLocksAreFreeWhenTheClaimIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		twice := once(t, "twice", 10*time.Second, "orders")
		requests, err := twice.Requests()
		if err != nil {
			t.Fatal(err)
		}
		table := requests[len(requests)-1].Resource
		deaf := jobs.Handle("work", func(context.Context, *jobs.Run, struct{}) error {
			time.Sleep(20 * time.Second)
			return nil
		})
		o := c.options("a", []jobs.Registration{deaf}, twice)
		before, err := o.Locker.TryAcquire(t.Context(), locking.Owner{Replica: "b", Job: "twice",
			Run: uuid.NewString()}, requests)
		if err != nil {
			t.Fatal(err)
		}
		stop := c.start(o)
		time.Sleep(12 * time.Second)
		if err := before.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		holder := func() string {
			t.Helper()
			holders, err := o.Locker.Inspect(t.Context(), []locking.Resource{table})
			if err != nil {
				t.Fatal(err)
			}
			return holders[table].Run
		}
		time.Sleep(8*time.Second + 100*time.Millisecond) // the replica has just sent a heartbeat
		run := c.runs("twice")[0]
		if got := holder(); got != run.ID.String() {
			t.Fatalf("the run %q has the advisory lock, want %s", got, run.ID)
		}
		if _, err := c.store.Release(t.Context(), byHand,
			storage.ReleaseRequest{Resource: table, Token: run.Token}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // until the next heartbeat
		synctest.Wait()
		if got := holder(); got != "" {
			t.Errorf("the run %q has the advisory lock after its claim was lost", got)
		}
		stop()
	})
}
