package locking_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
func secondFails(op lockingtest.Op) func(lockingtest.Op, string) lockingtest.Fault {
	return func(foundOp lockingtest.Op, key string) lockingtest.Fault {
		if foundOp == op && strings.Contains(key, "second") {
			return lockingtest.Unavailable
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
		faulty.Choose(secondFails(lockingtest.OpDelete))
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
