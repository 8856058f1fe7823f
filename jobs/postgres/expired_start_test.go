package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A session may expire between the statements of a start. The start then leaves a run that it has
// written and not decided on. Another replica must be able to adopt the run: nothing else would
// find it, and the misfire check counts its firing as started.
func TestRunOfASessionThatExpiresWithinItsStartIsAdopted(t *testing.T) {
	s := newHarness(t)
	session, successor := s.session(s.a, "a"), s.session(s.b, "b")
	s.granted(s.b, successor, request(t, "earlier", "orders")) // the fence exists
	s.exec("DELETE FROM holdfast.grants")
	tx, err := s.b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // after the test it does not matter
	if _, err := tx.Exec(t.Context(), "SELECT FROM holdfast.fences FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	late := request(t, "late", "orders")
	done := s.start(s.a, session, late)
	awaitWaiting(s, "a", done) // its run is written
	s.expire(session)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect(done, storage.StartNotLive)
	s.expectAdopted(successor, late)
}

// The same holds for a note.
func TestRunOfASessionThatExpiresWithinItsNoteIsAdopted(t *testing.T) {
	s := newHarness(t)
	session, successor := s.session(s.a, "a"), s.session(s.b, "b")
	resume := s.pause("a", "holdfast.runs", "INSERT", "true")
	late := request(t, "late", "orders")
	done := make(chan error, 1)
	go func() {
		_, err := s.a.Note(t.Context(), session, []storage.Note{{
			Run: late.Run, Firing: late.Firing, State: jobs.Skipped, Reason: reasons.LockHeld,
			Requests: late.Requests, WaitSince: late.WaitSince,
		}})
		done <- err
	}()
	awaitWaiting(s, "a", done) // it has found its session live
	s.expire(session)
	resume()
	if err := <-done; !errors.Is(err, storage.ErrSessionLost) {
		t.Fatalf("note: %v", err)
	}
	s.expectAdopted(successor, late)
}

// expectAdopted fails the test unless, after a sweep, the session can adopt the run.
func (s *harness) expectAdopted(session uuid.UUID, r storage.StartRequest) {
	s.t.Helper()
	if _, err := s.b.Sweep(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	adopted, err := s.b.Adopt(s.t.Context(), session, jobstest.Adoption(nil, 10, r.Firing.Job))
	if err != nil || len(adopted) != 1 || adopted[0].ID != r.Run {
		s.t.Fatalf("adopted %+v, %v: run %s is %s, and nobody's", adopted, err, r.Run,
			s.state(r.Run))
	}
}
