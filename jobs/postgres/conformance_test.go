package postgres

import (
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/jobstest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/lockingtest"
)

func TestConformance(t *testing.T) {
	jobstest.Run(t, func(t *testing.T) jobstest.Fixture {
		s := newStage(t)
		return jobstest.Fixture{Store: s.a, Second: s.b, Expire: s.expire}
	})
}

func TestGrantsConformance(t *testing.T) {
	lockingtest.RunGrants(t, func(t *testing.T) lockingtest.GrantsFixture {
		url := database(t)
		return lockingtest.GrantsFixture{Connect: func(t *testing.T) locking.Grants {
			s := openAs(t, url, "grants")
			s.lockTimeout = "1s"
			return s.Grants()
		}}
	})
}
