package postgres

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The pages read no more than they need, even if the planner expects more claims and waits than
// there are.
func TestPlansOfListings(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.stopAutovacuum()
	s.history(`INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at)
    SELECT gen_random_uuid(), 'job-' || n % 100, now() + n * interval '1 second', 'succeeded',
        now()
    FROM generate_series(1, 20000) n`)
	s.exec(`INSERT INTO holdfast.claims (token, run, session, granted_at)
    SELECT n, gen_random_uuid(), gen_random_uuid(), now() FROM generate_series(1, 10000) n`)
	s.exec(`INSERT INTO holdfast.waits (run, session, since)
    SELECT gen_random_uuid(), gen_random_uuid(), now() FROM generate_series(1, 10000) n`)
	s.vacuum()
	s.exec("DELETE FROM holdfast.claims")
	s.exec("DELETE FROM holdfast.waits")
	for _, state := range []jobs.State{jobs.Running, jobs.Waiting} {
		query, _ := jobsQuery(storage.JobFilter{State: state}, nil)
		if plan := s.plan("SELECT", query); strings.Contains(plan, "Seq Scan on runs") {
			t.Errorf("list of jobs with %s runs reads all runs:\n%s", state, plan)
		}
	}
	plan := s.plan("SELECT", listReplicas)
	scans := regexp.MustCompile(`Scan (using \w+ )?on claims`).FindAllString(plan, -1)
	if len(scans) != 1 || strings.Contains(plan, "SubPlan") {
		t.Errorf("list of replicas reads the claims of each:\n%s", plan)
	}
}

// The list of sessions looks up the past ones by their ends, and a sweep deletes them by these.
func TestPlansOfPastSessions(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec(`INSERT INTO holdfast.past_sessions
    SELECT gen_random_uuid(), 'r' || n, 'test', at, at, at, true, '{}'
    FROM generate_series(1, 20000) n, LATERAL (SELECT now() - n * interval '5 seconds' AS at) t`)
	s.vacuum()
	for name, sql := range map[string]string{"replicaSessions": replicaSessions,
		"forgetPast": forgetPast} {
		if plan := s.plan(beginPipeline, sql); !strings.Contains(plan, "past_sessions_ended") ||
			strings.Contains(plan, "Seq Scan on past_sessions") {
			t.Errorf("%s reads all past sessions:\n%s", name, plan)
		}
	}
}

// The marks look up the latest runs and audit entries, whatever the planner knows of the tables.
func TestPlansOfMarks(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	check := func(known string) {
		plan := s.plan("SELECT", readMarks)
		for _, table := range []string{"runs", "audit"} {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("%s: the marks read more of %s than the latest:\n%s", known, table, plan)
			}
		}
	}
	s.stopAutovacuum()
	s.history(`INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at)
    SELECT gen_random_uuid(), 'job-' || n % 100, at, 'succeeded', at
    FROM generate_series(1, 20000) n, LATERAL (SELECT now() - n * interval '1 second' AS at) t`)
	s.exec(`INSERT INTO holdfast.audit
    SELECT gen_random_uuid(), now() - n * interval '1 second', 'ann', '', '', '', '', '', 'trigger',
        'job', '', NULL, '', '', NULL
    FROM generate_series(1, 20000) n`)
	check("no statistics")
	s.vacuum()
	check("with statistics")
}

// A page of the runs of a replica does not read the newer runs of others.
func TestPlansOfRunsOfAReplica(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.history(`INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at, replica)
    SELECT gen_random_uuid(), 'job-' || n % 100, at, 'succeeded', at,
        CASE WHEN n <= 10000 THEN 'old' ELSE 'new' END
    FROM generate_series(1, 20000) n, LATERAL (SELECT now() + n * interval '1 second' AS at) t`)
	s.vacuum()
	at := &storage.RunCursor{CreatedAt: time.Now().Add(5000 * time.Second), ID: uuid.Max}
	for _, f := range []storage.RunFilter{{}, {States: []jobs.State{jobs.Succeeded}}, {Before: at},
		{After: at}, {From: at.CreatedAt}, {Until: at.CreatedAt}} {
		f.Replica = "old"
		plan := s.plan("SELECT", withArguments(runsQuery(f, nil)))
		if !strings.Contains(plan, "using runs_replica") || strings.Contains(plan, "Bitmap") {
			t.Errorf("%+v is not found by the index of replicas:\n%s", f, plan)
		}
	}
	of := storage.RunFilter{Replica: "old"}
	plan := s.plan("SELECT", withArguments(throughQuery(of, []string{"job-7"})))
	if !strings.Contains(plan, "using runs_replica") {
		t.Errorf("runs of a resource and a replica are not found by the index:\n%s", plan)
	}
}

// withArguments returns a query with its arguments in the text, for the plan of these arguments.
func withArguments(query string, args []any) string {
	for i := len(args) - 1; i >= 0; i-- {
		text := fmt.Sprint(args[i])
		switch v := args[i].(type) {
		case time.Time:
			text = v.Format(time.RFC3339Nano)
		case []string:
			text = "{" + strings.Join(v, ",") + "}"
		}
		query = strings.ReplaceAll(query, fmt.Sprintf("$%d", i+1), "'"+text+"'")
	}
	return query
}

// The runs of selected jobs are found by the index of each job, even if the newer runs of others
// are the whole page of the look through the newest runs.
func TestPlansOfRunsOfSelectedJobs(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.history(`
INSERT INTO holdfast.jobs SELECT 'etl/' || n, 1, now(), now() FROM generate_series(1, 100) n;
INSERT INTO holdfast.definitions (job, hash, version, schedule, zone, handler, resources, recover,
    description, job_group)
SELECT 'etl/' || n, 'h', 1, '', '', '', '[]', false, '', 'group-' || n % 2
    FROM generate_series(1, 100) n;
INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at)
SELECT gen_random_uuid(), CASE WHEN n <= 10000 THEN 'etl/' || n % 100 + 1 ELSE 'other' END, at,
    CASE WHEN n % 7 = 0 THEN 'failed' ELSE 'succeeded' END, at
FROM generate_series(1, 20000) n, LATERAL (SELECT now() + n * interval '1 second' AS at) t`)
	s.vacuum()
	for _, f := range []storage.RunFilter{{JobPrefix: "etl/1"}, {Group: "group-1"},
		{JobPrefix: "etl/1", Group: "group-1"}} {
		f.Limit = 20
		names, err := s.a.selectedJobs(t.Context(), f)
		if err != nil || len(names) == 0 {
			t.Fatalf("jobs of %+v are %q, %v", f, names, err)
		}
		for states, index := range map[jobs.State]string{"": "runs_job",
			jobs.Succeeded: "runs_job", jobs.Failed: "runs_job_unsuccessful"} {
			if f.States = nil; states != "" {
				f.States = []jobs.State{states}
			}
			plan := s.plan("SELECT", withArguments(runsQuery(f, names)))
			if !strings.Contains(plan, "using "+index+" on runs") ||
				strings.Contains(plan, "Seq Scan on runs") {
				t.Errorf("%+v is not found by %s:\n%s", f, index, plan)
			}
			through := s.plan("SELECT", withArguments(throughQuery(f, names)))
			if strings.Contains(through, "Seq Scan on runs") {
				t.Errorf("a look through the newest runs by %+v reads all:\n%s", f, through)
			}
			if found, err := s.a.Runs(t.Context(), f); err != nil || len(found) != 20 {
				t.Errorf("%d runs by %+v, %v, want a page of 20", len(found), f, err)
			}
		}
	}
}

// TestPlansOfCounts checks what the numbers of the lists read: the last run of each job by its
// index, the newest runs, and entries of the index of a job for its runs by day.
func TestPlansOfCounts(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.history(`
INSERT INTO holdfast.jobs SELECT 'job-' || n, 1, now(), now() FROM generate_series(0, 99) n;
INSERT INTO holdfast.definitions (job, hash, version, schedule, zone, handler, resources, recover,
    description)
SELECT 'job-' || n, 'h', 1, '', '', '', '[]', false, '' FROM generate_series(0, 99) n;
INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at)
SELECT gen_random_uuid(), 'job-' || n % 100, at,
    CASE WHEN n % 7 = 0 THEN 'failed' ELSE 'succeeded' END, at
FROM generate_series(1, 40000) n, LATERAL (SELECT now() - n * interval '1 minute' AS at) t`)
	s.vacuum()
	states, _ := jobStatesQuery(nil)
	states = withArguments(states, []any{[]string{}, []string{}})
	for name, c := range map[string]struct {
		query string
		has   []string
	}{
		"states of jobs": {states, []string{"using runs_job on runs"}},
		"newest runs":    {withArguments(countNewest, []any{100}), []string{"using runs_created on runs"}},
		"runs by day": {withArguments(countRuns, []any{[]string{"job-1", "job-2"},
			[]string{"2026-01-01", "2026-01-01"}, []string{"2036-01-01", "2036-01-01"}, 1000, 100}),
			[]string{"Index Only Scan using runs_job on runs",
				"using runs_job_unsuccessful on runs"}},
	} {
		plan := s.plan("SELECT", c.query)
		for _, want := range c.has {
			if !strings.Contains(plan, want) {
				t.Errorf("%s: the plan lacks %q:\n%s", name, want, plan)
			}
		}
		if strings.Contains(plan, "Seq Scan on runs") {
			t.Errorf("%s: the plan reads all runs:\n%s", name, plan)
		}
	}
}

// TestEstimateOfRuns checks the estimate of a history whose runs of triggers were pruned early, so
// that the tallies have many more runs than the table.
func TestEstimateOfRuns(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.stopAutovacuum()
	s.exec(`INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at)
SELECT gen_random_uuid(), 'a', at, 'succeeded', at
FROM generate_series(1, 3000) n, LATERAL (SELECT now() - n * interval '1 minute' AS at) t`)
	counted := func(exactly int) storage.EndedRuns {
		t.Helper()
		ended, err := s.a.EndedRuns(t.Context(), exactly)
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}
	all := map[jobs.State]int{jobs.Succeeded: 3000}
	for exactly, estimated := range map[int]bool{3000: false, 2999: true} {
		if got, want := counted(exactly), storage.NewEndedRuns(all, estimated); !reflect.DeepEqual(
			got, want) {
			t.Errorf("up to %d: %+v, want %+v", exactly, got, want)
		}
	}
	s.exec("VACUUM ANALYZE holdfast.runs")
	if got, want := counted(10), storage.NewEndedRuns(all, true); !reflect.DeepEqual(got, want) {
		t.Errorf("after ANALYZE: %+v, want %+v", got, want)
	}
	s.exec("DELETE FROM holdfast.runs WHERE created_at < now() - interval '1000 minutes'")
	s.exec("VACUUM ANALYZE holdfast.runs")
	got := counted(10)
	if got.ByState != nil || !got.Estimated || got.Runs < 900 || got.Runs > 1100 {
		t.Errorf("after pruning: %+v, want an estimate of about 1000 without states", got)
	}
}

// TestPlansOfFilteredCounts checks that each query of CountFiltered reads entries of one index, and
// at most one more than it counts of each.
func TestPlansOfFilteredCounts(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.history(`
INSERT INTO holdfast.jobs SELECT 'etl/' || n, 1, now(), now() FROM generate_series(1, 100) n;
INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at, replica, reason)
SELECT gen_random_uuid(), CASE WHEN n <= 10000 THEN 'etl/' || n % 100 + 1 ELSE 'other' END, at,
    CASE WHEN n % 7 = 0 THEN 'failed' ELSE 'succeeded' END, at,
    CASE WHEN n <= 10000 THEN 'old' ELSE 'new' END, CASE WHEN n % 7 = 0 THEN 'panic' ELSE '' END
FROM generate_series(1, 20000) n, LATERAL (SELECT now() + n * interval '1 second' AS at) t`)
	s.vacuum()
	for name, c := range map[string]struct {
		f                 storage.RunFilter
		names             []string
		all, unsuccessful string // indexes
	}{
		"job":     {storage.RunFilter{Job: "etl/7"}, nil, "runs_job", "runs_job_unsuccessful"},
		"jobs":    {storage.RunFilter{}, []string{"etl/7", "etl/8"}, "runs_job", "runs_job_unsuccessful"},
		"replica": {storage.RunFilter{Replica: "old"}, nil, "runs_replica", "runs_unsuccessful"},
		"job and replica": {storage.RunFilter{Job: "etl/7", Replica: "old"}, nil, "runs_job",
			"runs_job_unsuccessful"},
		"reason": {storage.RunFilter{Reason: "panic"}, nil, "", "runs_cause"},
		"error":  {storage.RunFilter{Error: "x"}, nil, "", "runs_unsuccessful"},
		"time": {storage.RunFilter{Until: time.Now().Add(time.Hour)}, nil, "runs_created",
			"runs_unsuccessful"},
	} {
		bad, _, args := countUnsuccessful(c.f, c.names, 1000)
		plans := map[string]string{c.unsuccessful: s.plan("SELECT", withArguments(bad, args))}
		if c.all != "" {
			all, _, args := countAll(c.f, c.names, 1000)
			plans[c.all] = s.plan("SELECT", withArguments(all, args))
		}
		for index, plan := range plans {
			if !strings.Contains(plan, "using "+index+" on runs") ||
				strings.Contains(plan, "Seq Scan on runs") {
				t.Errorf("%s: not counted by %s:\n%s", name, index, plan)
			}
		}
	}
}
