package postgres

import (
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
	t.Parallel()
	s := newHarness(t)
	session, successor := s.session(s.a, "a"), s.session(s.b, "b")
	resume := s.pause("a", "holdfast.runs", "INSERT", "true")
	late := again(request(t, "late", "orders"))
	done := s.start(s.a, session, late)
	awaitWaiting(s, "a", done) // it has found its session live
	s.expire(session)
	resume()
	s.expect(done, storage.StartNotLive)
	s.expectAdopted(successor, late)
}

// A start that runs new firings at once leaves nothing behind, or a run with its claim.
func TestNewRunOfASessionThatExpiresWithinItsStart(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	resume := s.pause("a", "holdfast.runs", "INSERT", "true")
	late := request(t, "late", "orders")
	done := s.start(s.a, session, late)
	awaitWaiting(s, "a", done)
	s.expire(session)
	resume()
	s.expect(done, storage.StartGranted)
	if swept, err := s.b.Sweep(t.Context()); err != nil || len(swept.Lost) != 1 ||
		swept.Lost[0].ID != late.Run {
		t.Fatalf("sweep: %+v, %v, want the run lost", swept, err)
	}
}

// The same holds for a note.
func TestRunOfASessionThatExpiresWithinItsNoteIsAdopted(t *testing.T) {
	t.Parallel()
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
