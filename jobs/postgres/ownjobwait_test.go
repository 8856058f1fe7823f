package postgres

import (
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// ownJob returns the request of a job whose runs do not overlap.
func ownJob(t *testing.T, job string, n int, tables ...string) storage.StartRequest {
	t.Helper()
	r := request(t, job, tables...)
	requests, err := locking.OfJob(job, r.Requests, false)
	if err != nil {
		t.Fatal(err)
	}
	r.Requests = requests
	r.Firing.ScheduledAt = testScheduledAt.AddDate(0, 0, n)
	return r
}

// A firing waits for a run of its own job. When that run has released its table, the firing of
// another job starts at once, with one statement.
func TestWaitForTheOwnJobLeavesNewFiringsDecided(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	first := s.granted(s.a, session, ownJob(t, "one", 1, "orders"))
	waits := ownJob(t, "one", 2, "orders")
	s.expect(s.start(s.a, session, waits), storage.StartBlocked)
	s.finished(s.a, first)
	results, err := s.a.Start(t.Context(), session,
		[]storage.StartRequest{ownJob(t, "other", 3, "orders")})
	if err != nil || results[0].Outcome != storage.StartGranted {
		t.Fatalf("start of another job: %+v, %v, want it granted", results, err)
	}
	// now it waits for the table, and its position is reserved
	s.expect(s.start(s.a, session, again(waits)), storage.StartBlocked)
	if n := query[int](s, "SELECT count(*) FROM holdfast.wants WHERE run = $1", waits.Run); n != 2 {
		t.Errorf("%d wants of the waiting run, want its job and its table", n)
	}
}

// A position that was reserved before stays reserved while the run waits for its own job, even if
// the run withdrew its wants meanwhile.
func TestReservedPositionSurvivesAWaitForTheOwnJob(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	table := s.granted(s.a, session, request(t, "holder", "orders"))
	waits := ownJob(t, "one", 2, "orders")
	s.expect(s.start(s.a, session, waits), storage.StartBlocked)
	s.exec("DELETE FROM holdfast.wants WHERE run = $1", waits.Run)
	s.exec("UPDATE holdfast.waits SET reserved_until = clock_timestamp() + interval '1 hour' "+
		"WHERE run = $1", waits.Run)
	s.finished(s.a, table)
	own := ownJob(t, "one", 1)
	own.Requests = own.Requests[:1]
	own.Run = uuid.New()
	s.expect(s.start(s.a, session, own), storage.StartGranted)
	s.expect(s.start(s.a, session, again(waits)), storage.StartBlocked)
	younger := request(t, "younger", "orders")
	younger.WaitSince = waits.WaitSince.AddDate(0, 0, 1)
	s.expect(s.start(s.a, session, again(younger)), storage.StartBlocked)
}
