package sqlite_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A run that starts after RaiseTokens has a larger token.
func TestRaiseTokens(t *testing.T) {
	s := open(t)
	session := uuid.New()
	if err := s.Open(t.Context(),
		storage.Session{ID: session, Replica: "a", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	const step = 100_000_000_000
	if raised, err := s.RaiseTokens(t.Context()); err != nil || raised.From != 0 ||
		raised.To != step {
		t.Fatalf("got %+v, %v", raised, err)
	}
	results, err := s.Start(t.Context(), session, []storage.StartRequest{{Run: uuid.New(),
		Firing: storage.Firing{Job: "job", ScheduledAt: time.Now()}, Attempt: 1,
		WaitSince: time.Now()}})
	if err != nil || results[0].Token != step+1 {
		t.Errorf("got %+v, %v, want token %d", results, err, step+1)
	}
}
