package postgres

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	jobstest.Run(t, func(t *testing.T) jobstest.Fixture {
		s := newSingleHarness(t)
		return jobstest.Fixture{
			Store:  s.a,
			Second: func() storage.Store { return openAs(t, s.url, "b") },
			Expire: s.expire, Pause: s.pauseJobs, Pass: s.pass,
		}
	})
}

func TestAttemptsConformance(t *testing.T) {
	t.Parallel()
	jobstest.RunAttempts(t, func(t *testing.T) (first, second storage.Attempts) {
		s := newHarness(t)
		return s.a, s.b
	})
}

func TestGrantsConformance(t *testing.T) {
	t.Parallel()
	lockingtest.RunGrants(t, newGrantsFixture)
}

func newGrantsFixture(t *testing.T) lockingtest.GrantsFixture {
	url := database(t)
	return lockingtest.GrantsFixture{Connect: func(t *testing.T) locking.Grants {
		s := openAs(t, url, "grants")
		s.lockTimeout = "2s"
		return s.Grants()
	}}
}

func TestLockerConformanceWithoutMemcached(t *testing.T) {
	t.Parallel()
	lockingtest.RunLocker(t, func(t *testing.T) lockingtest.LockerFixture {
		return lockingtest.LockerFixture{GrantsFixture: newGrantsFixture(t)}
	})
}

func TestLockerConformanceWithMemcached(t *testing.T) {
	t.Parallel()
	lockingtest.RunLocker(t, func(t *testing.T) lockingtest.LockerFixture {
		f := lockingtest.LockerFixture{GrantsFixture: newGrantsFixture(t)}
		server := servertest.NewMemcached(t, "-t", "1")
		f.Fixture.Connect = func(t *testing.T) locking.Backend {
			// a busy machine
			b, err := memcached.New(memcached.Options{Servers: []string{server.Addr()},
				Timeout: 5 * time.Second})
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
		return f
	})
}
