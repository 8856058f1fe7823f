package simstore_test

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestConformance(t *testing.T) {
	jobstest.Run(t, func(t *testing.T) jobstest.Fixture {
		s := simstore.New()
		t.Cleanup(s.Close)
		return jobstest.Fixture{Store: s, Expire: s.Expire, Pause: s.PutPause, Pass: s.Pass,
			PassEnded: s.PassEnded}
	})
}

// Several writes in one microsecond have different times. The clock is not before the last one.
func TestNowIsNotBeforeTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simstore.New()
		defer s.Close()
		for _, group := range []string{"a", "b", "c"} {
			pause, err := s.Pause(t.Context(), storage.Action{Actor: "ann", Via: "go"},
				storage.Target{Kind: storage.TargetGroup, Name: group})
			if err != nil {
				t.Fatal(err)
			}
			if now, err := s.Now(t.Context()); err != nil || now.Before(pause.At) {
				t.Errorf("got %s, %v, want %s or later", now, err, pause.At)
			}
		}
	})
}
