package lockingtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

func contentionTests() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"TryAcquire":  testTryContention,
		"Acquire":     testWaitContention,
		"LostReplies": testContentionWithLostReplies,
	}
}

const tables = 6

// arena counts the holders of each resource, to detect two at the same time.
type arena struct {
	holders  [tables]atomic.Int64
	acquired atomic.Int64
	clashes  atomic.Int64
}

// hold holds the resources for a short time and counts the holders.
func (a *arena) hold(chosen []int) {
	a.acquired.Add(1)
	for _, i := range chosen {
		if a.holders[i].Add(1) != 1 {
			a.clashes.Add(1)
		}
	}
	time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
	for _, i := range chosen {
		a.holders[i].Add(-1)
	}
}

// choose returns between one and all of the tables, in random order.
func choose() []int { return rand.Perm(tables)[:1+rand.IntN(tables)] }

func requests(t *testing.T, chosen []int) []locking.Request {
	names := make([]string, 0, len(chosen))
	for _, i := range chosen {
		names = append(names, fmt.Sprintf("table-%d", i))
	}
	return exclusive(t, names...)
}

// contend lets many callers on three replicas lock tables, each of them rounds times. Release may
// return the errors in left.
func contend(t *testing.T, replicas []*replica, callers, rounds int,
	acquire func(r *replica, wanted []locking.Request) (*locking.Lock, error),
	left ...error) *arena {
	t.Helper()
	a := &arena{}
	inParallel(callers, func(i int) {
		r := replicas[i%len(replicas)]
		for range rounds {
			chosen := choose()
			lock, err := acquire(r, requests(t, chosen))
			if err != nil {
				if !errors.Is(err, locking.ErrHeld) && !errors.Is(err, locking.ErrUnclear) {
					t.Errorf("lock: %v", err)
				}
				continue
			}
			a.hold(chosen)
			err = lock.Release(context.Background())
			if err != nil && !slices.ContainsFunc(left, func(known error) bool {
				return errors.Is(err, known)
			}) {
				t.Errorf("release: %v", err)
			}
		}
	})
	if n := a.clashes.Load(); n > 0 {
		t.Errorf("two holders at the same time, %d times", n)
	}
	return a
}

func testTryContention(t *testing.T, f Fixture) {
	s := newStore(t, f)
	replicas := []*replica{s.join(t, "replica-1"), s.join(t, "replica-2"), s.join(t, "replica-3")}
	a := contend(t, replicas, 24, 30,
		func(r *replica, wanted []locking.Request) (*locking.Lock, error) {
			return r.TryAcquire(t.Context(), r.owner("job"), wanted)
		})
	if a.acquired.Load() == 0 {
		t.Error("no caller ever got a lock")
	}
	s.checkEmpty(t)
}

// testWaitContention also checks that no caller waits forever.
func testWaitContention(t *testing.T, f Fixture) {
	const callers, rounds = 12, 6
	s := newStore(t, f)
	replicas := []*replica{s.join(t, "replica-1"), s.join(t, "replica-2"), s.join(t, "replica-3")}
	policy := retry.Policy{Elapsed: 2 * awaitTimeout, Delay: 2 * time.Millisecond, Jitter: 1}
	a := contend(t, replicas, callers, rounds,
		func(r *replica, wanted []locking.Request) (*locking.Lock, error) {
			return r.Acquire(t.Context(), r.owner("job"), wanted, policy)
		})
	if got := a.acquired.Load(); got != callers*rounds {
		t.Errorf("%d of %d locks granted", got, callers*rounds)
	}
	s.checkEmpty(t)
}

// testContentionWithLostReplies loses one reply in eight, of any operation. A release that lost all
// replies returns an error and leaves the advisory lock to the sweep.
func testContentionWithLostReplies(t *testing.T, f Fixture) {
	s := newStore(t, f)
	var replicas []*replica
	for _, name := range []string{"replica-1", "replica-2", "replica-3"} {
		r := s.join(t, name, longLease)
		random := rand.New(rand.NewPCG(1, uint64(len(replicas))))
		r.faults.Choose(func(op Op, _ string) Fault {
			if random.IntN(8) > 0 {
				return None
			}
			if op == OpGet {
				return Unavailable
			}
			return []Fault{LoseReply, LoseRequest}[random.IntN(2)]
		})
		replicas = append(replicas, r)
	}
	a := contend(t, replicas, 12, 20,
		func(r *replica, wanted []locking.Request) (*locking.Lock, error) {
			return r.TryAcquire(t.Context(), r.owner("job"), wanted)
		}, locking.ErrUnclear, locking.ErrUnavailable)
	if a.acquired.Load() == 0 {
		t.Error("no caller ever got a lock")
	}
	for _, r := range replicas {
		r.faults.Choose(nil)
		r.start(t) // it sweeps abandoned advisory locks
	}
	await(t, "removal of abandoned advisory locks", func() bool {
		found, err := s.Get(t.Context(), s.keys.all()...)
		return err == nil && len(found) == 0
	})
}

func inParallel(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}
