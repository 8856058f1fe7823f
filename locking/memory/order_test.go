package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
	"github.com/holdfast-dev/holdfast/retry"
)

const (
	waiters = 8
	queues  = 100 // at a time
)

// BenchmarkOrder measures, for each backoff, which waiter for one lock is served
// first, and how long the lock is free before. By chance it is the oldest of eight
// in 12.5 % of the cases.
//
// Waiters arrive evenly over the time that the lock is held. Grants keep the order of waiters that
// have waited for at least a second. They do not change the order of brief waits.
func BenchmarkOrder(b *testing.B) {
	policies := map[string]retry.Policy{
		"constant":            {Delay: 100 * time.Millisecond, Jitter: 0.2},
		"exponential":         {Delay: 10 * time.Millisecond, MaxDelay: time.Second, Backoff: retry.Exponential, Jitter: 0.2},
		"reverse_exponential": {Backoff: retry.ReverseExponential, Jitter: 0.2},
	}
	for _, held := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 4 * time.Second} {
		for _, backends := range []string{"entries", "grants"} {
			for _, backoff := range []string{"constant", "exponential", "reverse_exponential"} {
				b.Run(fmt.Sprintf("%s/%s/%s", held, backends, backoff), func(b *testing.B) {
					measureOrder(b, orderLocker(b, backends == "grants"), policies[backoff], held)
				})
			}
		}
	}
}

// orderLocker returns a locker that runs until the benchmark ends.
func orderLocker(b *testing.B, grants bool) *locking.Locker {
	b.Helper()
	o := locking.Options{Namespace: "n", Lease: time.Minute, Log: zerolog.Nop()}
	if grants {
		o.Grants, o.Session = memory.NewGrants(), locking.Session{Replica: "a"}
	}
	locker, err := locking.New(memory.New(), o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- locker.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	if err := locker.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	return locker
}

func measureOrder(b *testing.B, locker *locking.Locker, policy retry.Policy, held time.Duration) {
	policy.Elapsed = time.Minute
	var oldest, idle, served atomic.Int64
	for b.Loop() {
		var all sync.WaitGroup
		for range queues {
			all.Go(func() {
				first, free := serve(b, locker, policy, held)
				if first == 0 {
					oldest.Add(1)
				}
				idle.Add(int64(free))
				served.Add(1)
			})
		}
		all.Wait()
	}
	b.ReportMetric(100*float64(oldest.Load())/float64(served.Load()), "%oldest-first")
	b.ReportMetric(float64(idle.Load())/float64(served.Load())/1e6, "ms-free")
	b.ReportMetric(0, "ns/op")
}

// serve returns the rank by age of the waiter that got the lock first, and how long
// the lock was free.
func serve(b *testing.B, locker *locking.Locker, policy retry.Policy,
	held time.Duration) (first int, idle time.Duration) {
	wanted := []locking.Request{request(b, uuid.NewString(), locking.Exclusive)}
	lock, err := locker.TryAcquire(b.Context(), locking.Owner{}, wanted)
	if err != nil {
		b.Error(err)
		return 0, 0
	}
	type service struct {
		waiter int
		at     time.Time
	}
	services := make(chan service, waiters)
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(func() {
			time.Sleep(held*time.Duration(i)/waiters + rand.N(held/waiters))
			lock, err := locker.Acquire(b.Context(), locking.Owner{}, wanted, policy)
			services <- service{i, time.Now()}
			if err == nil {
				err = lock.Release(b.Context())
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	time.Sleep(held + rand.N(held/4))
	freed := time.Now()
	if err := lock.Release(b.Context()); err != nil {
		b.Error(err)
	}
	all.Wait()
	s := <-services
	return s.waiter, s.at.Sub(freed)
}
