package memcached_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	skipWithShort(t)
	lockingtest.Run(t, func(t *testing.T) lockingtest.Fixture {
		server := servertest.NewMemcached(t, "-t", "1")
		return lockingtest.Fixture{
			Connect: func(t *testing.T) locking.Backend { return connect(t, server.Addr()) },
			Forget: func(t *testing.T) {
				if err := server.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// TestConformanceOfSeveralServers spreads the keys over three servers.
func TestConformanceOfSeveralServers(t *testing.T) {
	t.Parallel()
	skipWithShort(t)
	lockingtest.Run(t, func(t *testing.T) lockingtest.Fixture {
		var servers []*servertest.Memcached
		var addresses []string
		for range 3 {
			server := servertest.NewMemcached(t, "-t", "1")
			servers, addresses = append(servers, server), append(addresses, server.Addr())
		}
		return lockingtest.Fixture{
			Connect: func(t *testing.T) locking.Backend { return connect(t, addresses...) },
			Forget: func(t *testing.T) {
				for _, server := range servers {
					if err := server.Restart(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			},
		}
	})
}

func skipWithShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs memcached")
	}
}

// connect returns a backend with a timeout that is long enough for a busy machine.
func connect(t testing.TB, servers ...string) *memcached.Backend {
	t.Helper()
	return open(t, memcached.Options{Servers: servers, Timeout: 5 * time.Second})
}

func open(t testing.TB, o memcached.Options) *memcached.Backend {
	t.Helper()
	b, err := memcached.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}
