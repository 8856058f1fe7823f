package memory_test

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

func TestLockerConformance(t *testing.T) {
	lockingtest.RunLocker(t, func(*testing.T) lockingtest.LockerFixture {
		backend, f := memory.New(), lockingtest.LockerFixture{GrantsFixture: grantsAlone()}
		f.Fixture.Connect = func(*testing.T) locking.Backend { return backend }
		return f
	}, synctest.Test)
}

// TestLockerConformanceWithoutAdvisoryLocks checks a Locker without a backend, where the grants
// decide alone.
func TestLockerConformanceWithoutAdvisoryLocks(t *testing.T) {
	lockingtest.RunLocker(t, func(*testing.T) lockingtest.LockerFixture {
		return lockingtest.LockerFixture{GrantsFixture: grantsAlone()}
	}, synctest.Test)
}

func grantsAlone() lockingtest.GrantsFixture {
	grants := memory.NewGrants()
	return lockingtest.GrantsFixture{Connect: func(*testing.T) locking.Grants { return grants }}
}
