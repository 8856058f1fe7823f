package postgres

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var runsScan = regexp.MustCompile(
	`Index (?:Only )?Scan(?: Backward)? using (\w+) on runs|Bitmap Index Scan on (runs_\w+)|(Seq Scan) on runs`)

// TestPagesOfHistoryUseAnIndex checks the plan of a page by each filter. The benchmark measures
// the pages of a long history.
func TestPagesOfHistoryUseAnIndex(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.history(`
INSERT INTO holdfast.runs (id, job, scheduled_at, state, replica, created_at, backfill)
SELECT gen_random_uuid(), 'job ' || n % 50, t,
    CASE WHEN n % 100 = 0 THEN 'failed' ELSE 'succeeded' END, 'replica ' || n % 3, t,
    CASE WHEN n % 20 = 0 THEN md5((n / 1000)::text)::uuid END
FROM (SELECT n, timestamptz '2026-01-01' + n * interval '1 second' AS t
    FROM generate_series(1, 20000) n) history`)
	s.exec("ANALYZE")
	for _, c := range []struct {
		filter storage.RunFilter
		want   []string // indexes
	}{
		{storage.RunFilter{}, []string{"runs_created"}},
		{storage.RunFilter{Job: "job 7"}, []string{"runs_job"}},
		{storage.RunFilter{Replica: "replica of long ago"}, []string{"runs_replica"}},
		{storage.RunFilter{States: []jobs.State{jobs.Waiting}}, []string{"runs_pkey"}},
		{storage.RunFilter{States: []jobs.State{jobs.Running}}, []string{"runs_pkey"}},
		{storage.RunFilter{States: []jobs.State{jobs.Failed}}, []string{"runs_unsuccessful"}},
		{storage.RunFilter{States: []jobs.State{jobs.Lost, jobs.Failed}},
			[]string{"runs_unsuccessful", "runs_unsuccessful"}},
		{storage.RunFilter{States: []jobs.State{jobs.Succeeded}}, []string{"runs_created"}},
		{storage.RunFilter{States: jobs.States()[2:5]},
			[]string{"runs_created", "runs_unsuccessful", "runs_unsuccessful"}},
		{storage.RunFilter{Backfill: uuid.New()}, []string{"runs_backfill"}},
		{storage.RunFilter{Backfill: uuid.New(), Job: "job 7"}, []string{"runs_backfill"}},
		{storage.RunFilter{Backfill: uuid.New(), States: []jobs.State{jobs.Succeeded}},
			[]string{"runs_backfill"}},
	} {
		for _, c.filter.Before = range []*storage.RunCursor{nil, {CreatedAt: testScheduledAt}} {
			plan := s.explain(runsQuery(c.filter, nil))
			var found []string
			for _, scan := range runsScan.FindAllStringSubmatch(plan, -1) {
				found = append(found, strings.Join(scan[1:], ""))
			}
			if slices.Sort(found); !slices.Equal(found, c.want) {
				t.Errorf("%+v reads runs by %q, want %q:\n%s", c.filter, found, c.want, plan)
			}
		}
	}
}

// explain returns the plan of a query with its arguments.
func (s *harness) explain(query string, args []any) string {
	s.t.Helper()
	rows, err := s.watcher().Query(s.t.Context(), "EXPLAIN "+query,
		append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// No index may cover a column that a run changes until it succeeds: an update that is not heap-only
// writes to every index.
func TestUpdatesOfSuccessfulRunsAreInPlace(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	r := request(t, "job", "orders")
	session := s.session(s.a, "a")
	s.granted(s.a, session, r)
	tx, err := s.watcher().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // nothing is to be kept
	for i, change := range []string{
		"state = 'waiting', reason = 'retry', detail = 'attempt 1 ended as failed', error = " +
			"'no', attempt = attempt + 1",
		"reason = 'lock_held', blocker = '{}'",
		"state = 'running', token = token + 1, reason = '', detail = '', blocker = NULL",
		"state = 'succeeded', error = '', finished_at = clock_timestamp()",
	} {
		if _, err := tx.Exec(t.Context(), "UPDATE holdfast.runs SET "+change); err != nil {
			t.Fatal(err)
		}
		var hot int
		if err := tx.QueryRow(t.Context(),
			"SELECT pg_stat_get_xact_tuples_hot_updated('holdfast.runs'::regclass)").Scan(
			&hot); err != nil {
			t.Fatal(err)
		}
		if hot != i+1 {
			t.Fatalf("%s is no heap-only update", change)
		}
	}
}
