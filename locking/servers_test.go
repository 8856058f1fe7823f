package locking_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// twoServers is a backend with two servers. The second one has the keys with the word "second".
type twoServers struct{ *memory.Backend }

func (twoServers) Server(key string) string {
	if strings.Contains(key, "second") {
		return "second:11211"
	}
	return "first:11211"
}

// secondFails makes the operations of a kind on the second server fail.
func secondFails(op lockingtest.Op,
	fault lockingtest.Fault) func(lockingtest.Op, string) lockingtest.Fault {
	return func(foundOp lockingtest.Op, key string) lockingtest.Fault {
		if foundOp == op && strings.Contains(key, "second") {
			return fault
		}
		return lockingtest.None
	}
}

// onBothServers returns n names with keys on each server, in turn.
func onBothServers(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%d/first", i), fmt.Sprintf("%d/second", i))
	}
	return names
}

// halfSilent is twoServers whose second server does not reply to a Get.
type halfSilent struct{ twoServers }

func (h halfSilent) Get(ctx context.Context, keys ...string) (map[string][]byte, error) {
	if !slices.ContainsFunc(keys, func(key string) bool { return h.Server(key) != "first:11211" }) {
		return h.twoServers.Get(ctx, keys...)
	}
	_ = sleep.For(ctx, 500*time.Millisecond)
	return nil, fmt.Errorf("%w: second:11211", locking.ErrUnavailable)
}

// TestClearGoesOnWithTheOtherServers clears a lock with a name on each of two servers.
func TestClearGoesOnWithTheOtherServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := twoServers{memory.New()}
		dead := newLocker(t, backend, locking.Options{})
		requests := exclusive(t, "a/first", "a/second")
		if _, err := dead.TryAcquire(t.Context(), locking.Owner{Run: "run"},
			requests); err != nil {
			t.Fatal(err)
		}
		locker := newLocker(t, halfSilent{backend}, locking.Options{})
		if err := locker.Clear(t.Context(), requests, "run"); !errors.Is(err,
			locking.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable of the second server", err)
		}
		if left := backend.Len(); left != 1 {
			t.Errorf("%d advisory locks are left, want that of the second server", left)
		}
	})
}

// TestPassedFindsTheGatesOfOtherServers asks two servers with a short deadline.
func TestPassedFindsTheGatesOfOtherServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := twoServers{memory.New()}
		locker := newLocker(t, halfSilent{backend}, locking.Options{})
		if _, err := locker.Gate(t.Context(), "first", time.Hour); err != nil {
			t.Fatal(err)
		}
		for range 20 { // the order of the servers is random
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			passed, err := locker.Passed(ctx, []string{"first", "second"})
			cancel()
			if !passed["first"] || passed["second"] || !errors.Is(err, locking.ErrUnavailable) {
				t.Fatalf("got %v, %v; want the first gate and ErrUnavailable", passed, err)
			}
		}
	})
}

// TestStraysOfOtherServersAreRemoved makes strays on two servers, one of which does not reply to
// the sweep.
func TestStraysOfOtherServersAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		faulty := lockingtest.NewFaulty(twoServers{backend})
		locker := start(t, faulty, locking.Options{})
		const each = 10
		k := lock(t, locker, onBothServers(each)...)
		faulty.Always(lockingtest.Unavailable)
		if err := k.Release(t.Context()); err == nil {
			t.Fatal("release: got no error, want ErrUnavailable")
		}
		faulty.Choose(secondFails(lockingtest.OpDelete, lockingtest.Unavailable))
		before := faulty.Count(lockingtest.OpDelete)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if left := backend.Len(); left != each {
			t.Errorf("%d advisory locks are left, want the %d of the second server", left, each)
		}
		if asked := faulty.Count(lockingtest.OpDelete) - before; asked != each+1 {
			t.Errorf("%d requests, want %d: the second server gets one", asked, each+1)
		}
	})
}

// TestRenewalAsksASilentServerOnce renews a lock with many names on two servers, one of which does
// not reply.
func TestRenewalAsksASilentServerOnce(t *testing.T) {
	for _, fault := range []lockingtest.Fault{lockingtest.Unavailable, lockingtest.LoseRequest} {
		synctest.Test(t, func(t *testing.T) {
			faulty := lockingtest.NewFaulty(twoServers{memory.New()})
			locker := start(t, faulty, locking.Options{})
			const each = 10
			k := lock(t, locker, onBothServers(each)...)
			faulty.Choose(secondFails(lockingtest.OpRenew, fault))
			time.Sleep(third)
			synctest.Wait()
			if asked := faulty.Count(lockingtest.OpRenew); asked != each+1 {
				t.Errorf("%d requests, want %d: the second server gets one", asked, each+1)
			}
			faulty.Choose(nil)
			time.Sleep(time.Second)
			synctest.Wait()
			if asked := faulty.Count(lockingtest.OpRenew); asked != each+1+2*each {
				t.Errorf("%d requests, want %d: the retry renews all names", asked, each+1+2*each)
			}
			release(t, k)
		})
	}
}

// secondHangs is twoServers whose second server does not reply to a renewal. Like package
// memcached, it tries twice, for half a second.
type secondHangs struct{ twoServers }

func (h secondHangs) Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if h.Server(key) == "first:11211" {
		return h.twoServers.Renew(ctx, key, value, ttl)
	}
	_ = sleep.For(ctx, time.Second)
	return fmt.Errorf("%w: second:11211", locking.ErrUnavailable)
}

// TestHangingServerDoesNotDelayRenewalsOnOthers holds many locks on a server that hangs, and one on
// another server.
func TestHangingServerDoesNotDelayRenewalsOnOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var restored atomic.Int64
		locker := start(t, secondHangs{twoServers{memory.New()}}, locking.Options{Restore: true,
			OnEvent: func(e locking.Event) {
				if e.Kind == locking.EventRestored {
					restored.Add(1)
				}
			}})
		for i := range 200 {
			lock(t, locker, fmt.Sprintf("%d/second", i))
		}
		lock(t, locker, "first")
		time.Sleep(3*lease + time.Second)
		synctest.Wait()
		if held, err := locker.Inspect(t.Context(), resources(t, "first")); err != nil ||
			len(held) != 1 || restored.Load() != 0 {
			t.Errorf("advisory lock on the healthy server: got %v, %v, restored %d times, "+
				"want it to be held without a break", held, err, restored.Load())
		}
	})
}
