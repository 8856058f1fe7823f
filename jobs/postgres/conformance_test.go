package postgres

import (
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/jobstest"
)

func TestConformance(t *testing.T) {
	jobstest.Run(t, func(t *testing.T) jobstest.Fixture {
		s := newStage(t)
		return jobstest.Fixture{Store: s.a, Second: s.b, Expire: s.expire}
	})
}
