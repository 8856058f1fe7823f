package postgres

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestJobsInAStateReadFewRuns counts the jobs whose last run a page of the jobs in a state reads.
// With thousands of jobs it must not read that of each.
func TestJobsInAStateReadFewRuns(t *testing.T) {
	t.Parallel()
	const all = 3000
	s := newHarness(t)
	s.exec(fmt.Sprintf(`INSERT INTO holdfast.jobs (name, version, checked_until, updated_at)
    SELECT 'job-' || lpad(n::text, 4, '0'), 1, now(), now() FROM generate_series(1, %d) n`, all))
	s.exec(fmt.Sprintf(`INSERT INTO holdfast.definitions (job, version, hash, schedule, zone, handler, resources, recover, description)
    SELECT 'job-' || lpad(n::text, 4, '0'), 1, '', '@daily', 'UTC', 'nothing', '[]', false, '' FROM generate_series(1, %d) n`, all))
	s.history(fmt.Sprintf(`INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at)
    SELECT gen_random_uuid(), 'job-' || lpad(n::text, 4, '0'), at, CASE WHEN age = 2 AND n <= 20 THEN 'timed_out'
            WHEN n %% 10 = 3 THEN 'failed' ELSE 'succeeded' END, at
    FROM generate_series(1, %d) n, generate_series(1, 9) age, LATERAL (SELECT now() - age * interval '1 hour' AS at) t`, all))
	s.vacuum()
	for _, test := range []struct {
		state jobs.State
		most  int
	}{
		{jobs.TimedOut, 20}, // the jobs that have ever timed out
		{jobs.Succeeded, 80}, {jobs.Failed, 500},
	} {
		for _, f := range []storage.JobFilter{{}, {Before: "job-2990"}, {Text: "job"},
			{Text: "job", Source: storage.FromConfig, Paused: new(false)}} {
			f.State, f.Limit = test.state, 50
			query, args := jobsQuery(f, nil)
			rows, err := s.a.views.Query(t.Context(),
				"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+query, args...)
			if err != nil {
				t.Fatal(err)
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			plan := strings.Join(lines, "\n")
			read := regexp.MustCompile(`on runs r \(actual rows=\S+ loops=(\d+)\)`).
				FindStringSubmatch(plan)
			if read == nil {
				t.Fatalf("%s: the plan reads no last runs:\n%s", test.state, plan)
			}
			if n, err := strconv.Atoi(read[1]); err != nil || n == 0 || n > test.most {
				t.Errorf("%+v reads the last runs of %d jobs, want at most %d:\n%s", f, n,
					test.most, plan)
			}
		}
	}
}
