package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestAbandonedRunsLeaveNothing checks that the tables of waiting runs are empty afterwards.
func TestAbandonedRunsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	leaves, stays := uuid.New(), uuid.New()
	for id, replica := range map[uuid.UUID]string{leaves: "leaves", stays: "stays"} {
		if err := s.a.Open(t.Context(),
			storage.Session{ID: id, Replica: replica, Version: "v1", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.a.Register(t.Context(), leaves,
		[]storage.Definition{{Name: "a", Hash: "h", Priority: 5,
			Source: storage.FromConfig}}); err != nil {
		t.Fatal(err)
	}
	holder, waits := request(t, "holder", "t"), request(t, "a", "t")
	if _, err := s.a.Start(t.Context(), stays, []storage.StartRequest{holder}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.a.Start(t.Context(), leaves, []storage.StartRequest{again(waits)}); err != nil {
		t.Fatal(err)
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.wants"); n == 0 {
		t.Fatal("rows in wants: got none, want some")
	}
	if err := s.a.End(t.Context(), leaves); err != nil {
		t.Fatal(err)
	}
	s.pass(2 * storage.MaxAbsence)
	if _, err := s.a.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"waits", "wants", "runs WHERE state = 'waiting'"} {
		if n := query[int](s, "SELECT count(*) FROM holdfast."+table); n != 0 {
			t.Errorf("%d left in %s", n, table)
		}
	}
}
