package memcached_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// TestLockerConformance uses advisory locks in memcached and grants in memory.
func TestLockerConformance(t *testing.T) {
	t.Parallel()
	skipWithShort(t)
	lockingtest.RunLocker(t, func(t *testing.T) lockingtest.LockerFixture {
		server, grants := servertest.NewMemcached(t, "-t", "1"), memory.NewGrants()
		var f lockingtest.LockerFixture
		f.Fixture.Connect = func(t *testing.T) locking.Backend { return connect(t, server.Addr()) }
		f.GrantsFixture.Connect = func(*testing.T) locking.Grants { return grants }
		return f
	})
}
