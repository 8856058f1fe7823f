package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestRunsOfSeldomJobsAmongMany asks for pages of the runs of three jobs, behind more runs of
// another job than are looked through. The pages must have the runs that a scan of all finds, in
// whichever of the times looked back they are.
func TestRunsOfSeldomJobsAmongMany(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.history(`
INSERT INTO holdfast.jobs
SELECT unnest('{seldom/a,seldom/b,seldom/c,busy}'::text[]), 1, now(), now();
INSERT INTO holdfast.definitions (job, hash, version, schedule, zone, handler, resources, recover,
    description)
SELECT name, 'h', 1, '', '', '', '[]', false, '' FROM holdfast.jobs;
INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at, replica)
SELECT gen_random_uuid(), job, at, CASE WHEN n % 3 = 0 THEN 'failed' ELSE 'succeeded' END, at,
    'replica-' || n % 2
FROM generate_series(0, 39) n, unnest('{seldom/a,seldom/b,seldom/c}'::text[]) job,
    LATERAL (SELECT '2026-01-31 12:00Z'::timestamptz
        - ('{2 min, 9 min, 3 h, 7 h, 2 days}'::interval[])[1 + n / 8] - n * interval '1 second'
        AS at) t;
INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at, replica)
SELECT gen_random_uuid(), 'busy', at, 'succeeded', at, 'replica-' || n % 2
FROM generate_series(1, 14000) n, LATERAL (SELECT '2026-01-28 12:00Z'::timestamptz
    + (n % 2) * interval '3 days' + n * interval '1 ms' AS at) t`)
	s.vacuum()
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	asked := 0
	for _, state := range []jobs.State{"", jobs.Succeeded, jobs.Failed} {
		for _, replica := range []string{"", "replica-1"} {
			for _, limit := range []int{1, 5, 20, 70, 200} {
				for _, from := range []time.Duration{0, time.Hour, 5 * time.Hour} {
					f := storage.RunFilter{JobPrefix: "seldom/", Replica: replica, Limit: limit}
					if state != "" {
						f.States = []jobs.State{state}
					}
					newest := f
					if from > 0 {
						newest.From = noon.Add(-from)
					}
					asked += s.comparePage(newest)
					older := newest
					older.Before = &storage.RunCursor{CreatedAt: noon.Add(-5 * time.Minute)}
					asked += s.comparePage(older)
					back := f
					back.After = &storage.RunCursor{CreatedAt: noon.Add(-73 * time.Hour)}
					if from > 0 {
						back.Until = noon.Add(-from)
					}
					asked += s.comparePage(back)
				}
			}
		}
	}
	if asked == 0 {
		t.Error("all pages are empty")
	}
}

// comparePage compares the page of the runs of seldom jobs with a scan, and returns its length.
func (s *harness) comparePage(f storage.RunFilter) int {
	s.t.Helper()
	query, args := "SELECT id FROM holdfast.runs WHERE starts_with(job, 'seldom/')", []any{}
	where := func(condition string, value any) {
		args = append(args, value)
		query += fmt.Sprintf(" AND "+condition, len(args))
	}
	if len(f.States) > 0 {
		where("state = $%d", f.States[0])
	}
	if f.Replica != "" {
		where("replica = $%d", f.Replica)
	}
	if !f.From.IsZero() {
		where("created_at >= $%d", f.From)
	}
	if !f.Until.IsZero() {
		where("created_at < $%d", f.Until)
	}
	if f.Before != nil {
		where("created_at < $%d", f.Before.CreatedAt)
	}
	order := " ORDER BY created_at DESC, id DESC"
	if f.After != nil {
		where("created_at > $%d", f.After.CreatedAt)
		order = " ORDER BY created_at, id"
	}
	rows, err := s.a.pool.Query(s.t.Context(), query+order+fmt.Sprintf(" LIMIT %d", f.Limit),
		args...)
	if err != nil {
		s.t.Fatal(err)
	}
	want, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := s.a.Runs(s.t.Context(), f)
	if err != nil || len(found) != len(want) {
		s.t.Errorf("%+v: %d runs, %v, want %d", f, len(found), err, len(want))
		return len(found)
	}
	for i := range found {
		expected := want[i]
		if f.After != nil { // the page is the newest first
			expected = want[len(want)-1-i]
		}
		if found[i].ID != expected {
			s.t.Errorf("%+v: run %d is of %s, created at %s, want run %s", f, i, found[i].Job,
				found[i].CreatedAt, expected)
			break
		}
	}
	return len(found)
}
