package lockingtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

func manyCallersTests() map[string]func(*testing.T, LockerFixture) {
	return map[string]func(*testing.T, LockerFixture){
		"Try":         testTryWithManyCallers,
		"Wait":        testWaitWithManyCallers,
		"OneName":     testManyCallersOfOneName,
		"LostReplies": testManyCallersWithLostReplies,
		"Stopping":    testManyCallersOfStoppedMembers,
	}
}

// lockRandom lets many callers on all members hold random resources, each of them rounds times.
func (c *cluster) lockRandom(members []*member, callers, rounds int,
	acquire func(m *member, wanted []locking.Request) (*locking.Lock, error)) *grantWitness {
	c.Helper()
	h := newGrantWitness()
	together(callers, func(i int) {
		m := members[i%len(members)]
		for range rounds {
			wanted := anyRequests()
			lock, err := acquire(m, wanted)
			if err != nil {
				if !errors.Is(err, locking.ErrHeld) && !errors.Is(err, locking.ErrUnavailable) &&
					!errors.Is(err, locking.ErrNoSession) {
					c.Errorf("lock: %v", err)
				}
				continue
			}
			if err := h.enter(lock.Token(), wanted); err != nil {
				c.Error(err)
			}
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			h.leave(lock.Token())
			if err := lock.Release(context.Background()); err != nil &&
				!errors.Is(err, locking.ErrUnavailable) {
				c.Errorf("release: %v", err)
			}
		}
	})
	if h.granted == 0 {
		c.Error("no caller ever got a lock")
	}
	return h
}

func (c *cluster) three() []*member {
	c.Helper()
	return []*member{c.join("replica-1"), c.join("replica-2"), c.join("replica-3")}
}

func testTryWithManyCallers(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.lockRandom(c.three(), 18, 25,
		func(m *member, wanted []locking.Request) (*locking.Lock, error) {
			return m.try(t, "job", wanted...)
		})
	c.checkNothingLeft("a", "e")
}

// testWaitWithManyCallers also checks that no caller waits forever and that waiters hold nothing.
// Otherwise they would deadlock.
func testWaitWithManyCallers(t *testing.T, f LockerFixture) {
	callers, rounds := 12, soak.Pick(4, 10)
	c := newCluster(t, f)
	policy := retry.Policy{Elapsed: 4 * awaitTimeout, Delay: 2 * time.Millisecond, Jitter: 1}
	h := c.lockRandom(c.three(), callers, rounds,
		func(m *member, wanted []locking.Request) (*locking.Lock, error) {
			return m.Acquire(t.Context(), m.owner("job"), wanted, policy)
		})
	if h.granted != callers*rounds {
		t.Errorf("%d of %d locks granted", h.granted, callers*rounds)
	}
	c.checkNothingLeft("a", "e")
}

// testManyCallersOfOneName makes all callers lock the same name, which has an advisory lock.
func testManyCallersOfOneName(t *testing.T, f LockerFixture) {
	callers, rounds := 12, soak.Pick(4, 8)
	c := newCluster(t, f)
	policy := retry.Policy{Elapsed: 4 * awaitTimeout, Delay: time.Millisecond, Jitter: 1}
	h := c.lockRandom(c.three(), callers, rounds,
		func(m *member, wanted []locking.Request) (*locking.Lock, error) {
			clear(wanted)
			wanted[0] = writes("hot")
			for i := range wanted {
				wanted[i] = wanted[0]
			}
			return m.Acquire(t.Context(), m.owner("job"), wanted, policy)
		})
	if h.granted != callers*rounds {
		t.Errorf("%d of %d locks granted", h.granted, callers*rounds)
	}
	c.checkNothingLeft("hot")
}

// testManyCallersWithLostReplies loses one reply in eight of the backend and of the grants.
func testManyCallersWithLostReplies(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	members := c.three()
	for i, m := range members {
		random := rand.New(rand.NewPCG(2, uint64(i)))
		m.grants.Choose(func(op Op) Fault {
			if random.IntN(8) > 0 {
				return None
			}
			return []Fault{LoseReply, Unavailable}[random.IntN(2)]
		})
		if m.faults == nil {
			continue
		}
		other := rand.New(rand.NewPCG(3, uint64(i)))
		m.faults.Choose(func(op Op, _ string) Fault {
			switch {
			case other.IntN(8) > 0:
				return None
			case op == OpGet:
				return Unavailable
			}
			return []Fault{LoseReply, LoseRequest}[other.IntN(2)]
		})
	}
	policy := retry.Policy{Attempts: 20, Delay: 2 * time.Millisecond, Jitter: 1}
	c.lockRandom(members, 12, 10, func(m *member, wanted []locking.Request) (*locking.Lock, error) {
		if rand.IntN(2) == 0 {
			return m.try(t, "job", wanted...)
		}
		return m.Acquire(t.Context(), m.owner("job"), wanted, policy)
	})
	for _, m := range members {
		m.grants.Choose(nil)
		if m.faults != nil {
			m.faults.Choose(nil)
		}
	}
	c.awaitFree("a", "e")
	if c.store != nil {
		await(t, "removal of abandoned advisory locks", func() bool {
			found, err := c.Get(t.Context(), c.keys.all()...)
			return err == nil && len(found) == 0
		})
	}
}

// testManyCallersOfStoppedMembers ends members while others wait for their locks.
func testManyCallersOfStoppedMembers(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	last := c.join("last")
	var done []<-chan outcome
	for i := range 4 {
		m := c.join(fmt.Sprint("replica-", i))
		for j := range 5 {
			m.gets(t, "held", writes(fmt.Sprintf("s/%d-%d", i, j)))
		}
		done = append(done, last.waits(t, t.Context(), "waiter", writes(fmt.Sprintf("s/%d-0", i))))
		go m.stop()
	}
	for _, d := range done {
		free(t, (<-d).must(t))
	}
	free(t, (<-last.waits(t, t.Context(), "all", writes("s"))).must(t))
	c.awaitFree("s")
}
