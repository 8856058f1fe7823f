package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// manyJobs is 10,000 jobs in 40 groups. They lock 500 tables of 20 schemas, and every tenth locks
// one semaphore. They have a million runs in one day, of which one in 40 did not succeed.
const manyJobs = `
INSERT INTO holdfast.jobs SELECT 'job-' || lpad(n::text, 5, '0'), 1, now(), now()
    FROM generate_series(0, 9999) n;
INSERT INTO holdfast.definitions (job, hash, version, schedule, zone, handler, resources, recover,
    description, job_group)
SELECT 'job-' || lpad(n::text, 5, '0'), 'h', 1, '*/5 * * * *', 'Europe/Berlin', 'sql',
    jsonb_build_array(jsonb_build_object('resource', 'job:job-' || lpad(n::text, 5, '0'), 'mode',
        'exclusive'),
        jsonb_build_object('resource', 'table:s' || n % 20 || '/t' || n % 500, 'mode', 'exclusive'))
    || CASE WHEN n % 10 = 0 THEN '[{"resource": "slot:api", "mode": "slot", "slots": 5}]'
        ELSE '[]' END::jsonb,
    false, 'Moves things from here to there, number ' || n, 'group-' || n % 40
        FROM generate_series(0, 9999) n;
INSERT INTO holdfast.runs (id, job, scheduled_at, attempt, state, session, replica, token,
    created_at, started_at, finished_at, reason)
SELECT gen_random_uuid(), 'job-' || lpad((n::bigint * 7919 % 10000)::text, 5, '0'), t, 1, state,
    gen_random_uuid(), 'replica-' || n % 3,
    n, t, t, CASE WHEN state NOT IN ('waiting', 'running') THEN t + interval '1 second' END,
        CASE state
        WHEN 'skipped' THEN CASE WHEN n % 3 = 0 THEN 'overlap' ELSE 'lock_held' END WHEN 'missed'
            THEN 'misfire' WHEN 'lost' THEN 'session_lost'
        WHEN 'failed' THEN CASE WHEN n % 20000 = 3 THEN 'panic' ELSE '' END ELSE '' END
FROM (
    SELECT n, timestamptz '2026-01-01' + n * interval '86400 microseconds' AS t, CASE
        WHEN n > 999950 THEN 'waiting' WHEN n > 999920 THEN 'running' WHEN n % 10000 = 1 THEN 'lost'
            WHEN n % 5000 = 2 THEN 'missed'
        WHEN n % 200 = 3 THEN 'failed' WHEN n % 50 = 5 THEN 'skipped' ELSE 'succeeded' END AS state
    FROM generate_series(1, 1000000) n) history;
INSERT INTO holdfast.waits (run, session, since) SELECT id, session, created_at FROM holdfast.runs
    WHERE state = 'waiting';
INSERT INTO holdfast.claims (token, run, session, granted_at) SELECT token, id, session, created_at
    FROM holdfast.runs WHERE state = 'running'`

// manyWaits is 300,000 waits in that day, of all jobs for 500 others.
const manyWaits = `
INSERT INTO holdfast.wait_history (run, job, holder, resource, state, since, until)
SELECT gen_random_uuid(), 'job-' || lpad((n::bigint * 7919 % 10000)::text, 5, '0'),
    'job-' || lpad((n % 500)::text, 5, '0'), 'table:s' || n % 20 || '/t' || n % 500,
    CASE WHEN n % 9 = 0 THEN 'skipped' ELSE 'running' END, t - interval '1 second' * (n % 60), t
FROM generate_series(1, 300000) n, LATERAL (SELECT timestamptz '2026-01-01'
    + n * interval '288 milliseconds' AS t) at;
ANALYZE holdfast.wait_history`

// BenchmarkListings runs the queries of the pages with 10,000 jobs and a million runs in one day.
func BenchmarkListings(b *testing.B) {
	s := openAs(b, database(b), "a")
	for _, statement := range []string{manyJobs, "VACUUM ANALYZE"} {
		if _, err := s.pool.Exec(b.Context(), statement,
			pgx.QueryExecModeSimpleProtocol); err != nil {
			b.Fatal(err)
		}
	}
	ask := func(name string, question func() (int, error)) {
		b.Run(name, func(b *testing.B) {
			rows := 0
			for b.Loop() {
				var err error
				if rows, err = question(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(rows), "rows")
		})
	}
	yes := true
	for _, c := range []struct {
		name   string
		filter storage.JobFilter
	}{
		{"first page", storage.JobFilter{Limit: 50}},
		{"page in the middle", storage.JobFilter{Limit: 50, After: "job-05000"}},
		{"page back", storage.JobFilter{Limit: 50, Before: "job-05000"}},
		{"text of one", storage.JobFilter{Limit: 50, Text: "number 9999"}},
		{"text of none", storage.JobFilter{Limit: 50, Text: "nothing like it"}},
		{"group", storage.JobFilter{Limit: 50, Group: "group-7"}},
		{"running", storage.JobFilter{Limit: 50, State: jobs.Running}},
		{"failed last", storage.JobFilter{Limit: 50, State: jobs.Failed}},
		{"timed out last, none", storage.JobFilter{Limit: 50, State: jobs.TimedOut}},
		{"paused, none", storage.JobFilter{Limit: 50, Paused: &yes}},
	} {
		ask("jobs/"+c.name, func() (int, error) {
			found, err := s.ListJobs(b.Context(), c.filter)
			return len(found), err
		})
	}
	table := func(key string) *locking.Resource {
		resource, err := locking.ParseKey(key)
		if err != nil {
			b.Fatal(err)
		}
		return &resource
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	failed, skipped := []jobs.State{jobs.Failed}, []jobs.State{jobs.Skipped}
	for _, c := range []struct {
		name   string
		filter storage.RunFilter
	}{
		{"all", storage.RunFilter{}}, {"reason", storage.RunFilter{Reason: reasons.LockHeld}},
		{"reason, rare", storage.RunFilter{Reason: reasons.Panic}},
		{"reason, none", storage.RunFilter{Reason: reasons.Shutdown}},
		{"reason and state", storage.RunFilter{Reason: reasons.Panic, States: failed}},
		{"job and failed", storage.RunFilter{Job: "job-00003", States: failed}},
		{"job and failed, none", storage.RunFilter{Job: "job-00004", States: failed}},
		{"an hour", storage.RunFilter{From: noon, Until: noon.Add(time.Hour)}},
		{"an hour, failed", storage.RunFilter{From: noon, Until: noon.Add(time.Hour), States: failed}},
		{"table of 20 jobs", storage.RunFilter{Resource: table("table:s3/t3")}},
		{"schema of 500", storage.RunFilter{Resource: table("table:s3")}},
		{"semaphore of 1,000", storage.RunFilter{Resource: table("slot:api")}},
		{"table, unknown", storage.RunFilter{Resource: table("table:x/y")}},
		{"table and skipped", storage.RunFilter{Resource: table("table:s5/t5"), States: skipped}},
		{"table and its reason", storage.RunFilter{Resource: table("table:s5/t5"),
			Reason: reasons.LockHeld}},
		{"schema and skipped", storage.RunFilter{Resource: table("table:s5"), States: skipped}},
		{"schema and waiting", storage.RunFilter{Resource: table("table:s5"),
			States: []jobs.State{jobs.Waiting}}},
		{"table in an hour", storage.RunFilter{Resource: table("table:s3/t3"), From: noon,
			Until: noon.Add(time.Hour)}},
		{"group of 250", storage.RunFilter{Group: "group-7"}},
		{"group of 250, skipped", storage.RunFilter{Group: "group-7", States: skipped}},
		{"group, unknown", storage.RunFilter{Group: "nobody"}},
		{"prefix of 10", storage.RunFilter{JobPrefix: "job-0050"}},
		{"prefix of 1,000", storage.RunFilter{JobPrefix: "job-05"}},
		{"prefix of 1,000, failed", storage.RunFilter{JobPrefix: "job-05", States: failed}},
		{"prefix, unknown", storage.RunFilter{JobPrefix: "nobody"}},
		{"job and its reason", storage.RunFilter{Job: "job-00003", Reason: reasons.LockHeld}},
		{"replica and reason", storage.RunFilter{Replica: "replica-1", Reason: reasons.LockHeld}},
	} {
		ask("runs/"+c.name, func() (int, error) {
			found, err := s.Runs(b.Context(), c.filter)
			return len(found), err
		})
		c.filter.After = &storage.RunCursor{CreatedAt: noon}
		ask("runs/"+c.name+", back", func() (int, error) {
			found, err := s.Runs(b.Context(), c.filter)
			return len(found), err
		})
	}
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("job-%05d", 5000+i))
	}
	ask("outcomes, 20 of 50 jobs", func() (int, error) {
		found, err := s.Outcomes(b.Context(), storage.AllOutcomesOf(names), 20)
		return len(found), err
	})
	ask("tallies of a day", func() (int, error) {
		found, err := s.EndCounts(b.Context(), noon.Add(-12*time.Hour))
		return len(found), err
	})
	ask("tallies of an hour", func() (int, error) {
		found, err := s.EndCounts(b.Context(), noon.Add(11*time.Hour))
		return len(found), err
	})
	ask("tallies of a job", func() (int, error) {
		found, err := s.JobEndCounts(b.Context(), "job-00003", time.Time{})
		return len(found), err
	})
	ask("job", func() (int, error) { _, err := s.Job(b.Context(), "job-07777"); return 1, err })
	ask("groups", func() (int, error) {
		found, err := s.Groups(b.Context())
		return len(found), err
	})
	ask("resources", func() (int, error) {
		found, err := s.Resources(b.Context())
		return len(found), err
	})
	if _, err := s.pool.Exec(b.Context(), manyWaits,
		pgx.QueryExecModeSimpleProtocol); err != nil {
		b.Fatal(err)
	}
	var thousand []string
	for i := range storage.MaxBatch {
		thousand = append(thousand, fmt.Sprintf("job-%05d", i))
	}
	ask("locks/requests", func() (int, error) {
		found, err := s.JobRequests(b.Context())
		return len(found), err
	})
	for _, c := range []struct {
		name   string
		filter storage.RunIntervalFilter
	}{
		{"an hour of 320 jobs", storage.RunIntervalFilter{Jobs: thousand[:320], From: noon,
			Until: noon.Add(time.Hour), Each: 18}},
		{"a day of 320 jobs", storage.RunIntervalFilter{Jobs: thousand[:320],
			From: noon.Add(-12 * time.Hour), Until: noon.Add(12 * time.Hour), Each: 18}},
		{"a day of 1,000 jobs", storage.RunIntervalFilter{Jobs: thousand,
			From: noon.Add(-12 * time.Hour), Until: noon.Add(12 * time.Hour), Each: 6}},
	} {
		ask("locks/"+c.name, func() (int, error) {
			found, err := s.RunIntervals(b.Context(), c.filter)
			return len(found), err
		})
	}
	ask("locks/waits of an hour", func() (int, error) {
		found, err := s.WaitSummaries(b.Context(), noon, noon.Add(time.Hour))
		return len(found), err
	})
	ask("locks/waits of a day", func() (int, error) {
		found, err := s.WaitSummaries(b.Context(), noon.Add(-12*time.Hour), noon.Add(12*time.Hour))
		return len(found), err
	})
	ask("locks/typical of 1,000 jobs", func() (int, error) {
		found, err := s.Typical(b.Context(), thousand)
		return len(found), err
	})
	ask("all jobs at once", func() (int, error) {
		found, err := s.Jobs(b.Context())
		return len(found), err
	})
}

// TestListingsUseAnIndex checks the plans of the other queries of the pages.
func TestListingsUseAnIndex(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.history(strings.NewReplacer("1000000", "20000", "999950", "19950", "999920", "19920").
		Replace(manyJobs))
	s.vacuum()
	middle := time.Date(2026, 1, 1, 0, 15, 0, 0, time.UTC)
	names := []string{"job-00003", "job-00503", "job-01003"}
	for _, c := range []struct {
		filter storage.RunFilter
		names  []string
		want   []string // indexes, of which one must be used, and no other
	}{
		{storage.RunFilter{Reason: reasons.Panic}, nil, []string{"runs_cause", "runs_pkey"}},
		{storage.RunFilter{Reason: reasons.Panic, States: []jobs.State{jobs.Failed}}, nil,
			[]string{"runs_cause"}},
		{storage.RunFilter{Job: "job-00003", States: []jobs.State{jobs.Failed}}, nil,
			[]string{"runs_job_unsuccessful"}},
		{storage.RunFilter{}, names, []string{"runs_job", "runs_pkey"}},
		{storage.RunFilter{States: []jobs.State{jobs.Skipped}}, names,
			[]string{"runs_job_unsuccessful", "runs_pkey"}},
		// few runs wait
		{storage.RunFilter{Job: "job-00003", Reason: reasons.Panic}, nil,
			[]string{"runs_job_unsuccessful", "runs_pkey", "runs_job"}},
		{storage.RunFilter{Reason: reasons.LockHeld}, names,
			[]string{"runs_job_unsuccessful", "runs_pkey"}},
		{storage.RunFilter{From: middle, Until: middle.Add(time.Minute)}, nil,
			[]string{"runs_created"}},
	} {
		for _, c.filter.After = range []*storage.RunCursor{nil, {CreatedAt: middle}} {
			plan := s.explain(runsQuery(c.filter, c.names))
			found := map[string]bool{}
			for _, scan := range runsScan.FindAllStringSubmatch(plan, -1) {
				found[strings.Join(scan[1:], "")] = true
			}
			for index := range found {
				if !slices.Contains(c.want, index) {
					t.Errorf("%+v reads runs by %s, want %q:\n%s", c.filter, index, c.want, plan)
				}
			}
			if !found[c.want[0]] {
				t.Errorf("%+v does not read runs by %s:\n%s", c.filter, c.want[0], plan)
			}
		}
	}
	queries := map[string]string{
		"lastRunsOf": lastRunsOf, "lastOutcomes": fmt.Sprintf(lastOutcomes, 20),
		"failuresBefore": fmt.Sprintf(failuresBefore, storage.MaxFailures),
		"endsOfJob":      fmt.Sprintf(endsOfJob, storage.MaxTallied),
		"endsOfState":    fmt.Sprintf(endsOfState, "failed", storage.MaxTallied),
		"endedJobs":      fmt.Sprintf(endedJobs, fmt.Sprintf(endedOfState, "failed")),
		"runsOfDue":      runsOfFiring, "runsOfKey": runsOfKey,
	}
	for name, query := range queries {
		plan := s.plan("SELECT set_config('plan_cache_mode', 'force_generic_plan', true)", query)
		if strings.Contains(plan, "Seq Scan on runs") || !runsScan.MatchString(plan) {
			t.Errorf("%s reads all runs:\n%s", name, plan)
		}
	}
}
