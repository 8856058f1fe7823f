package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestFailuresBeforeEndAtTheirLimit checks a job with as many failures as are considered.
func TestFailuresBeforeEndAtTheirLimit(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s.history(fmt.Sprintf(`
INSERT INTO holdfast.runs (id, job, scheduled_at, attempt, state, created_at, finished_at)
SELECT gen_random_uuid(), 'a', t, 1, 'failed', t, t FROM (
    SELECT timestamptz '2026-01-01' + n * interval '1 second' AS t
    FROM generate_series(0, %d) n) times`, storage.MaxFailures))
	before := []storage.RunBefore{{Job: "a", Before: storage.RunCursor{
		CreatedAt: begin.Add(time.Hour), ID: uuid.Max}}}
	check := func(want storage.FailedRuns) {
		t.Helper()
		found, err := s.a.FailuresBefore(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		if got := found["a"]; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	check(storage.FailedRuns{Number: storage.MaxFailures, Since: begin.Add(time.Second),
		More: true})
	s.exec("UPDATE holdfast.runs SET state = 'succeeded' WHERE scheduled_at = $1",
		begin.Add(time.Second))
	check(storage.FailedRuns{Number: storage.MaxFailures - 1, Since: begin.Add(2 * time.Second)})
	s.exec("UPDATE holdfast.runs SET state = 'cancelled' WHERE scheduled_at = $1",
		begin.Add(time.Second))
	check(storage.FailedRuns{Number: storage.MaxFailures - 1, Since: begin.Add(2 * time.Second),
		More: true})
}
