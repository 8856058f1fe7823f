package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestRestartIsRecordedOnce checks that two replicas which detect one restart add one record.
func TestRestartIsRecordedOnce(t *testing.T) {
	t.Parallel()
	s := openAs(t, database(t), "a")
	started := time.Date(2026, 3, 14, 3, 0, 0, 0, time.UTC)
	for _, r := range []storage.Restart{
		{Server: "m:11211", StartedAt: started, NoticedBy: "one"},
		{Server: "m:11211", StartedAt: started, NoticedBy: "two"},
		{Server: "m:11211", StartedAt: started.Add(time.Minute), NoticedBy: "two"},
	} {
		if err := s.NoteRestart(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.Restarts(t.Context(), now.Add(-time.Minute), now.Add(time.Minute))
	if err != nil || len(found) != 2 || found[0].NoticedBy != "one" ||
		!found[0].StartedAt.Equal(started) || found[1].NoticedBy != "two" {
		t.Errorf("restarts are %+v, %v", found, err)
	}
	if before, err := s.Restarts(t.Context(), now.Add(-time.Hour),
		now.Add(-time.Minute)); err != nil || len(before) != 0 {
		t.Errorf("restarts of another time are %+v, %v", before, err)
	}
}

// TestLockPagesUseAnIndex checks the plans of the queries of the lock pages on the history.
func TestLockPagesUseAnIndex(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.history(strings.NewReplacer("1000000", "20000", "999950", "19950", "999920", "19920").
		Replace(manyJobs))
	s.exec(
		`INSERT INTO holdfast.wait_history SELECT gen_random_uuid(), 'job-' || n % 100,
			'job-' || n % 7, 'table:s/t', 'running', t - interval '1 second', t
FROM generate_series(1, 20000) n, LATERAL (SELECT timestamptz '2026-01-01'
    + n * interval '4 seconds' AS t) at`)
	s.vacuum()
	at := time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)
	names := []string{"job-00001", "job-00002", "job-00003"}
	for _, c := range []struct {
		query, index string
		args         []any
	}{
		{fmt.Sprintf(runIntervals, 50, storage.RunIntervalsBefore), "runs_job",
			[]any{names, at, at.Add(time.Minute)}},
		{fmt.Sprintf(typicalOf, storage.TypicalOf), "runs_job", []any{names}},
		{fmt.Sprintf(sumWaits, storage.MaxTallied, storage.MaxBatch), "wait_history_until",
			[]any{at, at.Add(time.Minute)}},
	} {
		plan := s.explain(c.query, c.args)
		if strings.Contains(plan, "Seq Scan on runs") ||
			strings.Contains(plan, "Seq Scan on wait_history") || !strings.Contains(plan, c.index) {
			t.Errorf("the plan does not walk %s:\n%s", c.index, plan)
		}
	}
}
