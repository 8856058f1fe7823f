package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// burstStore is a store that counts the calls that start runs, and that takes a while to end runs.
type burstStore struct {
	storage.Store
	starts   atomic.Int64
	largest  atomic.Int64  // runs in one start
	finishes time.Duration // that a finish takes
}

func (s *burstStore) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	s.starts.Add(1)
	n := int64(len(requests))
	for largest := s.largest.Load(); n > largest; largest = s.largest.Load() {
		s.largest.CompareAndSwap(largest, n)
	}
	return s.Store.Start(ctx, session, requests)
}

func (s *burstStore) Finish(ctx context.Context,
	requests []storage.FinishRequest) ([]bool, error) {
	time.Sleep(s.finishes)
	return s.Store.Finish(ctx, requests)
}

// unevenBackend answers the calls of different keys at different times.
type unevenBackend struct{ locking.Backend }

func (b unevenBackend) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	time.Sleep(time.Duration(key[len(key)-1]%8) * time.Millisecond)
	return b.Backend.Add(ctx, key, value, ttl)
}

// Firings that are due at the same time start in one transaction, although some have their gates
// and advisory locks earlier than others.
func TestFiringsThatAreDueTogetherStartTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRankedCluster(t, 0, 0, nil)
		c.gates.Backend = unevenBackend{c.locks}
		store := &burstStore{Store: c.store}
		const firings = 60
		var table []jobs.Job
		for i := range firings {
			table = append(table, once(t, fmt.Sprint("job-", i), time.Minute))
		}
		o := c.options("a", takes(0), table...)
		o.Store, o.Workers = store, firings
		c.add(o)
		time.Sleep(2 * time.Minute)
		c.stop()
		for _, j := range table {
			if got := c.outcomes(j.Name); len(got) != 1 || got[0] != string(jobs.Succeeded) {
				t.Errorf("%s: got %v, want one successful run", j.Name, got)
			}
		}
		if n := store.starts.Load(); n != 1 {
			t.Errorf("%d firings started in %d transactions, want 1", firings, n)
		}
	})
}

// A worker is free as soon as the handler has returned, and not when the end is recorded.
func TestWorkerIsFreeWhileTheEndIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		first, second := once(t, "first", time.Minute), once(t, "second", time.Minute)
		o := c.options("a", takes(time.Second), first, second)
		o.Store, o.Workers = &burstStore{Store: c.store, finishes: 3 * time.Second}, 1
		stop := c.start(o)
		time.Sleep(2 * time.Minute)
		stop()
		began := c.starts([]jobs.Job{first, second})
		if len(began) != 2 {
			t.Fatalf("%d runs started, want 2", len(began))
		}
		if gap := began[1].StartedAt.Sub(*began[0].StartedAt); gap < 900*time.Millisecond ||
			gap > 2*time.Second {
			t.Errorf("the second run started %s after the first, want when it had returned",
				gap)
		}
	})
}
