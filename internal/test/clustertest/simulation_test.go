package clustertest

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/test/simulation"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// kindsOfJobs is a cron table with jobs of every kind of schedule that share tables and slots. Each
// job writes to the ledger under a name of its own, because only the oracle decides which jobs
// conflict.
func kindsOfJobs(at time.Time) string {
	kinds := []struct{ schedule, keys, params string }{
		{`"* * * * * *"`, "tables: [t1], misfire: run_once", "takes: 50ms"},
		{`"*/2 * * * * *"`, "tables: [t1, t2], misfire: run_all, overlap: queue", "takes: 300ms"},
		{`"1-59/3 * * * * *"`, "tables: [t2], misfire: skip, timezone: Australia/Lord_Howe",
			"takes: 900ms"},
		{`"quartz:0/2 * * * * ?"`, "tables: [t3], misfire: run_all, recover: true",
			"takes: 1500ms"},
		{`"quartz:0/5 * * ? * MON-SUN"`,
			"tables: [t3, t4], recover: true, timezone: Antarctica/Troll", "takes: 200ms"},
		{`"every:1s"`, "tables: [t5], recover: true, misfire: run_all", "takes: 100ms"},
		{`"every:1s"`, "read_tables: [t1], overlap: allow, misfire: run_once", "takes: 1200ms"},
		{`"every:3s"`, "read_tables: [t5], tables: [t6], wait: {attempts: 30, delay: 100ms, " +
			"backoff: constant}", "takes: 20ms"},
		{`"every 2s between 00:00 and 23:59 on mon-sun"`, "tables: [t6], timezone: Europe/Berlin",
			"takes: 100ms"},
		{`"every:2s"`, "resources: [{name: vendor, slots: 2}], overlap: allow", "takes: 900ms"},
		{`"every:2s"`, "resources: [{name: vendor, slots: 2}]", "takes: 1100ms"},
		{`"every:1s"`, "resources: [{name: vendor, slots: 2}], misfire: skip", "takes: 400ms"},
		{`"every:4s"`, "tables: [t7], retry: {attempts: 3, delay: 200ms}", "panics: true"},
		{`"every:2s"`, "tables: [t8], calendars: [even-seconds], misfire: run_all", "takes: 10ms"},
		{`"every:2s"`, "tables: [t9], jitter: 1500ms, misfire: run_once", "takes: 10ms"},
		{`{after: [job-05]}`, "tables: [t10]", "takes: 10ms"},
		{fmt.Sprintf("%q", "at:"+at.UTC().Format(time.RFC3339)), "tables: [t11], misfire: run_once",
			"takes: 10ms"},
	}
	table := ""
	for i, k := range kinds {
		table += fmt.Sprintf("  - {name: job-%02d, schedule: %s, handler: ledger, %s, params: "+
			"{tables: [job-%02d], %s}}\n", i, k.schedule, k.keys, i, k.params)
	}
	return table + "calendars:\n  - {name: even-seconds, exclude: {cron: [\"*/4 * * * * *\"]}}\n"
}

// Four replicas run jobs of all kinds. The test kills and restarts one replica and freezes another
// for longer than its session's TTL. It restarts and stops memcached and pauses jobs. Then the
// oracle of the simulation checks each scheduled time.
func TestSimulationWithProcesses(t *testing.T) {
	soak.Only(t)
	t.Parallel()
	length := lengthOfRun(t, 16*time.Second) // a third of it is longer than a session's TTL
	c := newCluster(t, settings{
		expires: "4s", misfire: "3s",
		jobs: kindsOfJobs(time.Now().Add(length / 2).Truncate(time.Second)),
		wait: "{attempts: 10, delay: 50ms, max_delay: 200ms, backoff: exponential, jitter: 0.5}",
	})
	c.start("a", "b", "c", "d")
	from := askOne[time.Time](c, `SELECT clock_timestamp()`)
	const reached = `SELECT clock_timestamp() >= $1`
	var pauseTakes time.Duration
	pause := func(job string) error {
		start := time.Now()
		err := c.runCommand("pause", job)
		pauseTakes = max(pauseTakes, time.Since(start))
		return err
	}
	for _, step := range []struct {
		part float64
		what string
		do   func() error
	}{
		{0.15, "memcached is restarted", func() error { return c.memcached.Restart(c.ctx) }},
		{0.2, "a job is paused", func() error { return pause("job-00") }},
		{0.25, "a replica is killed", func() error { return c.killDuringRun("b") }},
		{0.3, "another is paused", func() error { return pause("job-11") }},
		{0.35, "a job is triggered for a later time",
			func() error { return c.runCommand("trigger", "job-08", "--delay", "1s") }},
		{0.4, "a replica is frozen",
			func() error { return c.replicas["c"].Signal(syscall.SIGSTOP) }},
		{0.45, "the job goes on", func() error { return c.runCommand("resume", "job-00") }},
		{0.5, "the killed replica is back", func() error { c.start("b"); return nil }},
		{0.55, "the other goes on", func() error { return c.runCommand("resume", "job-11") }},
		{0.6, "memcached is gone", func() error { return c.memcached.Kill() }},
		{0.65, "a job is triggered", func() error { c.trigger("job-07"); return nil }},
		{0.75, "the frozen replica goes on", func() error {
			return c.replicas["c"].Signal(syscall.SIGCONT)
		}},
		{0.8, "memcached is back", func() error { return c.memcached.Start(c.ctx) }},
	} {
		c.awaitValue(step.what, reached, from.Add(time.Duration(step.part*float64(length))))
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
	}
	until := from.Add(length)
	c.awaitValue("the end of the time", reached, until)
	evidence := c.evidence(until)
	evidence.PauseTakes = pauseTakes
	report := simulation.Judge(evidence)
	t.Log(report)
	for _, violation := range report.Violations {
		t.Error(violation)
	}
	if report.States[jobs.Succeeded] == 0 || report.States[jobs.Lost] == 0 ||
		report.Excluded == 0 || len(evidence.Pauses) != 2 {
		t.Errorf("%s, %d pauses: this test shows too little", report, len(evidence.Pauses))
	}
}

// killDuringRun kills a replica while a run of job-03 or job-06 certainly continues, because less
// time has passed than its handler takes. The replica is stopped before the second look, because on
// a busy machine a run may end between the look and the kill.
func (c *cluster) killDuringRun(name string) error {
	c.t.Helper()
	const young = `
SELECT EXISTS (SELECT FROM holdfast.runs r JOIN ledger l ON l.run = r.id AND l.token = r.token
    WHERE r.replica = $1 AND r.state = 'running' AND r.job IN ('job-03', 'job-06')
        AND l.at > clock_timestamp() - interval '1 second')`
	p := c.replicas[name]
	for {
		c.awaitValue("a run on it", young, name)
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		if askOne[bool](c, young, name) {
			return p.Kill()
		}
		if err := p.Signal(syscall.SIGCONT); err != nil {
			return err
		}
	}
}

// runCommand runs a command that must succeed.
func (c *cluster) runCommand(args ...string) error {
	if s := c.command(args...); s.code != 0 {
		return fmt.Errorf("%q: exit code %d: %s", args, s.code, s.err)
	}
	return nil
}

// evidence returns what the database contains after all firings up to then have ended. It has no
// Decisions, because a late run overwrites what the misfire check recorded of it. So the oracle
// does not judge causes of misfires here, and needs no Sessions and no Workers.
func (c *cluster) evidence(until time.Time) *simulation.Evidence {
	c.t.Helper()
	config, err := configs.Parse("a.yaml", []byte(c.config()),
		configs.WithEnv(func(string) (string, bool) { return "127.0.0.1:0", true }))
	if err != nil {
		c.t.Fatal(err)
	}
	e := &simulation.Evidence{Jobs: map[string]*simulation.History{}, Until: until,
		Margin: time.Second}
	definitions := map[string]*jobs.Job{}
	var scheduledAt []string // jobs that fire again after until, so that misfire checks can pass it
	for _, job := range config.Jobs {
		if job.Schedule.Next(until) != (time.Time{}) {
			scheduledAt = append(scheduledAt, job.Name)
		}
		definitions[job.Name] = &jobs.Job{
			Name: job.Name, Schedule: job.Schedule, Resources: job.Requests,
			Overlap: jobs.Overlap(job.Overlap), Misfire: jobs.Misfire(job.Misfire.NoReplica),
			MisfireThreshold: job.MisfireThreshold, Recover: job.Recover,
		}
	}
	c.settle(until, scheduledAt...)
	// A registration activates jobs in parts. So job-05 may fire before job-15 is active.
	c.awaitValue("all that follows and all that is run late has ended", `
SELECT NOT EXISTS (SELECT FROM holdfast.runs WHERE scheduled_at <= $1 AND finished_at IS NULL)
    AND NOT EXISTS (
    SELECT FROM holdfast.runs p WHERE p.job = 'job-05' AND p.state = 'succeeded' AND p.key = ''
        AND p.scheduled_at <= $1
        AND p.scheduled_at > (SELECT updated_at FROM holdfast.jobs WHERE name = 'job-15')
        AND NOT EXISTS (SELECT FROM holdfast.runs f
            WHERE f.job = 'job-15' AND f.scheduled_at = p.scheduled_at))`, until)
	type activeJob struct {
		Name          string
		Begun, Cursor time.Time
	}
	forces, err := ask[activeJob](c.ctx, c,
		`SELECT name, updated_at, checked_until FROM holdfast.jobs`)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range forces {
		force := simulation.ActivePeriod{Job: *definitions[f.Name], At: f.Begun, Counted: f.Begun}
		e.Jobs[f.Name] = &simulation.History{Periods: []simulation.ActivePeriod{force},
			Cursor:  f.Cursor,
			Carried: true}
	}
	// Firings continue meanwhile, so records and executions must come from one snapshot.
	snapshot, err := c.db.BeginTx(c.ctx,
		pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		c.t.Fatal(err)
	}
	defer snapshot.Rollback(c.ctx) //nolint:errcheck // it only reads
	e.Records, e.Executions, e.Pauses = c.records(snapshot), c.executions(snapshot, definitions),
		c.pauses(snapshot)
	return e
}

// records returns the whole history.
func (c *cluster) records(q querier) []storage.Record {
	c.t.Helper()
	type row struct {
		ID                  uuid.UUID
		Job                 string
		ScheduledAt         time.Time
		Key                 string
		State               jobs.State
		Reason              jobs.Reason
		Detail, Error       string
		Replica             string
		Token               locking.Token
		Recovery, Attempt   int
		CreatedAt           time.Time
		StartedAt, FinishAt *time.Time
	}
	rows, err := askIn[row](c.ctx, q, `
SELECT id, job, scheduled_at, key, state, reason, detail, error, replica, coalesce(token, 0),
    recovery, attempt, created_at, started_at, finished_at
FROM holdfast.runs`)
	if err != nil {
		c.t.Fatal(err)
	}
	records := make([]storage.Record, len(rows))
	for i, r := range rows {
		records[i] = storage.Record{
			ID: r.ID, Job: r.Job, ScheduledAt: r.ScheduledAt.UTC(), Key: r.Key, State: r.State,
			Reason: r.Reason, Detail: r.Detail, Error: r.Error, Replica: r.Replica,
			Token: r.Token, Recovery: r.Recovery, Attempt: r.Attempt, CreatedAt: r.CreatedAt,
			StartedAt: r.StartedAt, FinishedAt: r.FinishAt,
		}
	}
	return records
}

// executions returns the calls of handlers according to the ledger. Each token that wrote a row is
// one attempt.
func (c *cluster) executions(q querier, definitions map[string]*jobs.Job) []simulation.Execution {
	c.t.Helper()
	type row struct {
		Run          uuid.UUID
		Job          string
		ScheduledAt  time.Time
		Key, Replica string
		Recovery     int
		Token        locking.Token
		Attempt      int
		Begun, Acted time.Time
		Ended        bool
	}
	rows, err := askIn[row](c.ctx, q, `
SELECT r.id, r.job, r.scheduled_at, r.key, r.replica, r.recovery, l.token,
    (row_number() OVER (PARTITION BY r.id ORDER BY l.token))::int, l.begun, l.acted, l.ended FROM (
    SELECT run, token, min(at) AS begun, max(at) AS acted, bool_or(step = 'end') AS ended
        FROM ledger GROUP BY run, token) l
JOIN holdfast.runs r ON r.id = l.run ORDER BY l.begun`)
	if err != nil {
		c.t.Fatal(err)
	}
	executions := make([]simulation.Execution, len(rows))
	for i, r := range rows {
		executions[i] = simulation.Execution{
			Run: r.Run, Job: r.Job, ScheduledAt: r.ScheduledAt.UTC(), Key: r.Key,
			Recovery: r.Recovery, Attempt: r.Attempt, Token: r.Token, Replica: r.Replica,
			Definition: definitions[r.Job], Begun: r.Begun, Acted: r.Acted, Ended: r.Ended,
		}
	}
	return executions
}

func (c *cluster) pauses(q querier) []storage.Pause {
	c.t.Helper()
	type row struct {
		Kind      storage.TargetKind
		Name      string
		At        time.Time
		ResumedAt *time.Time
	}
	rows, err := askIn[row](c.ctx, q,
		`SELECT kind, name, paused_at, resumed_at FROM holdfast.pauses`)
	if err != nil {
		c.t.Fatal(err)
	}
	pauses := make([]storage.Pause, len(rows))
	for i, r := range rows {
		pauses[i] = storage.Pause{Target: storage.Target{Kind: r.Kind, Name: r.Name}, At: r.At,
			ResumedAt: r.ResumedAt}
	}
	return pauses
}
