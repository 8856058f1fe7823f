package postgres

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/internal/test/race"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	databases := newLender(t)
	jobstest.Run(t, func(t *testing.T) jobstest.Fixture {
		d := databases.lend(t)
		s := &harness{t: t, url: d.url, a: d.store(databases, t, "a"), connection: d.conn}
		return jobstest.Fixture{
			Store:  s.a,
			Second: func() storage.Store { return d.store(databases, t, "b") },
			Expire: s.expire, Pause: s.pauseJobs, Pass: s.pass, PassEnded: s.passEnded,
		}
	})
}

func TestAttemptsConformance(t *testing.T) {
	t.Parallel()
	jobstest.RunLoginAttempts(t, func(t *testing.T) (first, second storage.LoginAttempts) {
		s := newHarness(t)
		return s.a, s.b
	})
}

func TestSignOutsConformance(t *testing.T) {
	t.Parallel()
	jobstest.RunSignOuts(t, func(t *testing.T) (first, second storage.SignOuts) {
		s := newHarness(t)
		return s.a, s.b
	})
}

func TestAuditWriterConformance(t *testing.T) {
	t.Parallel()
	jobstest.RunAuditWriter(t, func(t *testing.T) (storage.Store, storage.AuditWriter) {
		s := newHarness(t)
		return s.a, s.a
	})
}

func TestGrantsConformance(t *testing.T) {
	t.Parallel()
	lockingtest.RunGrants(t, newGrantsFixture(t))
}

// newGrantsFixture returns what opens the fixtures of the subtests of t.
func newGrantsFixture(t *testing.T) func(t *testing.T) lockingtest.GrantsFixture {
	databases := newLender(t)
	return func(t *testing.T) lockingtest.GrantsFixture {
		d := databases.lend(t)
		return lockingtest.GrantsFixture{Connect: func(t *testing.T) locking.Grants {
			s := d.store(databases, t, "grants")
			s.lockTimeout = "10s" // a call with 1,000 locks takes more than 2 s on a busy machine
			return s.Grants()
		}}
	}
}

func TestLockerConformanceWithoutMemcached(t *testing.T) {
	race.Only(t)
	t.Parallel()
	grants := newGrantsFixture(t)
	lockingtest.RunLocker(t, func(t *testing.T) lockingtest.LockerFixture {
		return lockingtest.LockerFixture{GrantsFixture: grants(t)}
	})
}

// The conformance of package memcached has the same rules with memcached, and
// TestLockerConformanceWithoutMemcached those with PostgreSQL. Both together belong to the soak.
func TestLockerConformanceWithMemcached(t *testing.T) {
	soak.Only(t)
	t.Parallel()
	grants := newGrantsFixture(t)
	lockingtest.RunLocker(t, func(t *testing.T) lockingtest.LockerFixture {
		f := lockingtest.LockerFixture{GrantsFixture: grants(t)}
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
