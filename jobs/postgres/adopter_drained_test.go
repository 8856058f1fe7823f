package postgres

import (
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestRunOfATriggerBesideADrainIsFree drains the adopter of a triggered run after the trigger has
// looked at the session, and before it commits. The drain does not see the run, so adoptions must
// not rely on it.
func TestRunOfATriggerBesideADrainIsFree(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	one, two := s.session(s.a, "a"), s.session(s.b, "b")
	s.register(s.a, one, storage.Definition{Name: "export", Hash: "1"})
	resume := s.pause("a", "holdfast.audit", "INSERT", "NEW.action = 'trigger'")
	type result struct {
		storage.Triggered
		err error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := s.a.Trigger(t.Context(), anna,
			storage.TriggerRequest{Job: "export", Wait: nil, Adopter: one})
		done <- result{answer, err}
	}()
	awaitWaiting(s, "a", done)
	if err := s.b.Drain(t.Context(), anna, one, true); err != nil {
		t.Fatal(err)
	}
	resume()
	triggered := <-done
	if triggered.err != nil || triggered.Replica != "a" {
		t.Fatalf("the trigger: %+v, %v", triggered.Triggered, triggered.err)
	}
	if got := <-s.adopt(s.a, one, "export"); got.err != nil || len(got.records) != 0 {
		t.Errorf("the drained session adopts %+v, %v", got.records, got.err)
	}
	got := <-s.adopt(s.b, two, "export")
	if got.err != nil || len(got.records) != 1 || got.records[0].ID != triggered.ID {
		t.Errorf("the other session adopts %+v, %v, want run %s", got.records, got.err,
			triggered.ID)
	}
}
