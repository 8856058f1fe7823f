package postgres

import (
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A repeated start of a stopping session could grant a run that another session has adopted since
// the first start left it waiting. So no run is adopted from a session that has a start under way.
func TestNoRunIsAdoptedBesideAStartOfItsStoppingSession(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(s *harness, session uuid.UUID) error{
		"stopping": func(s *harness, session uuid.UUID) error {
			_, err := s.a.Heartbeat(t.Context(), session, storage.ReplicaStatus{Stopping: true})
			return err
		},
		// a drain frees the waits, but one that a trigger adds meanwhile is free only because of
		// the session
		"draining": func(s *harness, session uuid.UUID) error {
			err := s.b.Drain(t.Context(), operator, session, true)
			s.exec("UPDATE holdfast.waits SET session = $1", session)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			waits := request(t, "job", "orders")
			one, two := uuid.UUID(s.waitingRun(waits)), s.session(s.b, "b")
			resume := s.pause("a", "holdfast.claims", "INSERT", "true")
			started := s.start(s.a, one, request(t, "other", "sales"))
			awaitWaiting(s, "a", started)
			if err := leave(s, one); err != nil {
				t.Fatal(err)
			}
			if got := <-s.adopt(s.b, two, "job"); got.err != nil || len(got.records) != 0 {
				t.Errorf("beside the start: adopted %+v, %v", got.records, got.err)
			}
			resume()
			s.expect(started, storage.StartGranted)
			got := <-s.adopt(s.b, two, "job")
			if got.err != nil || len(got.records) != 1 || got.records[0].ID != waits.Run {
				t.Errorf("after the start: adopted %+v, %v, want the waiting run", got.records,
					got.err)
			}
			s.expect(s.start(s.a, one, waits), storage.StartDuplicate)
		})
	}
}
