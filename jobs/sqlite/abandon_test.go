package sqlite_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// TestAbandonedRunsLeaveNothing checks that the tables of waiting runs are empty afterwards.
func TestAbandonedRunsLeaveNothing(t *testing.T) {
	s := open(t)
	leaves, stays := uuid.New(), uuid.New()
	for id, replica := range map[uuid.UUID]string{leaves: "leaves", stays: "stays"} {
		if err := s.Open(t.Context(),
			storage.Session{ID: id, Replica: replica, Version: "v1", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Register(t.Context(), leaves,
		[]storage.Definition{{Name: "a", Hash: "h", Priority: 5,
			Source: storage.FromConfig}}); err != nil {
		t.Fatal(err)
	}
	holder, waits := startOf(t, "holder"), startOf(t, "a")
	if _, err := s.Start(t.Context(), stays, []storage.StartRequest{holder}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), leaves, []storage.StartRequest{waits}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, "wants"); n == 0 {
		t.Fatal("rows in wants: got none, want some")
	}
	if err := s.End(t.Context(), leaves); err != nil {
		t.Fatal(err)
	}
	s.Pass(2 * storage.MaxAbsence)
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"wants", "runs WHERE state = 'waiting'"} {
		if n := count(t, s, table); n != 0 {
			t.Errorf("%d left in %s", n, table)
		}
	}
}

// startOf is a start of the job that wants a table.
func startOf(t *testing.T, job string) storage.StartRequest {
	t.Helper()
	table, err := locking.Table("t", "public")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	return storage.StartRequest{
		Run: uuid.New(), Firing: storage.Firing{Job: job, ScheduledAt: now}, Attempt: 1,
		WaitSince: now, Requests: []locking.Request{{Resource: table, Mode: locking.Exclusive}},
	}
}

func count(t *testing.T, s *sqlite.Store, table string) (n int) {
	t.Helper()
	if err := s.Writer().QueryRow("SELECT count(*) FROM holdfast_" + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
