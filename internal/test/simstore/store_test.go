package simstore_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/internal/test/simstore"
)

func TestConformance(t *testing.T) {
	jobstest.Run(t, func(t *testing.T) jobstest.Fixture {
		s := simstore.New()
		t.Cleanup(s.Close)
		return jobstest.Fixture{Store: s, Expire: s.Expire, Pause: s.PutPause, Pass: s.Pass,
			PassEnded: s.PassEnded}
	})
}
