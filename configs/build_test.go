package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

func mustParams(t *testing.T, v any) Params {
	t.Helper()
	params, err := NewParams(v)
	if err != nil {
		t.Fatal(err)
	}
	return params
}

// TestBuildIsParse builds a configuration that a file has too. Both are the same, with schedules
// and locks.
func TestBuildIsParse(t *testing.T) {
	want, err := Parse("c.yaml", []byte(`
database: {url: "postgres://a:pass@h/$${d", migrate: false}
replica: {name: a}
admin: {listen: "", tokens: [{name: grafana, role: metrics, token_hash: `+hunted+`}]}
locking: {memcached: {servers: ["127.0.0.1:11211"]}}
groups: [{name: nightly, per_cluster: 2}]
jobs:
  - {name: extract, handler: command, params: {command: ["echo", "$${HOME} <&>\u2028\u0007"]}}
  - name: rollup
    description: "totals: {of} the day"
    schedule: {cron: "0 2 * * *"}
    timezone: Europe/Berlin
    handler: windowed
    params: {statement: SELECT 1, rows: 12345678901234567890, deep: {a: [1.5, null, true]}}
    tables: [sales_rollup]
    read_tables: [sales]
    resources: [{name: gpu, slots: 2}]
    group: nightly
    timeout: 10m
    retry: {attempts: 3, delay: 2s}
    wait: {attempts: 20, reserve: 0s}
    misfire: {no_replica: run_all, max_age: 6h}
    recover: true
  - {name: report, schedule: {after: [rollup]}, handler: sql, params: {statement: SELECT 2}}
`))
	if err != nil {
		t.Fatal(err)
	}
	built := Defaults()
	built.Database = Database{URL: NewSecret("postgres://a:pass@h/${d"), MaxConnections: 20}
	built.Replica.Name, built.Admin.Listen = "a", ""
	built.Admin.Tokens = []Token{{Name: "grafana", Role: MetricsReader,
		TokenHash: NewSecret(hunted)}}
	built.Locking.Memcached = &Memcached{Servers: []string{"127.0.0.1:11211"}}
	built.Groups = []Group{{Name: "nightly", PerCluster: 2}}
	built.Jobs = []Job{{Name: "extract", Handler: "command",
		Params: mustParams(t, map[string]any{
			"command": []string{"echo", "${HOME} <&>\u2028\a"}})}}
	rollup := NewBuiltJob(Job{Name: "rollup", Description: "totals: {of} the day",
		Spec: schedule.Spec{Cron: "0 2 * * *"}, Timezone: "Europe/Berlin", Handler: "windowed",
		Params: mustParams(t, struct {
			Statement string         `json:"statement"`
			Rows      uint64         `json:"rows"`
			Deep      map[string]any `json:"deep"`
		}{"SELECT 1", 12345678901234567890, map[string]any{"a": []any{1.5, nil, true}}}),
		Tables: []string{"sales_rollup"}, ReadTables: []string{"sales"},
		Resources: []Resource{{Name: "gpu", Slots: 2}}, Group: "nightly",
		Timeout: 10 * time.Minute, Retry: retry.Policy{Attempts: 3, Delay: 2 * time.Second},
		Wait:    Wait{Attempts: 20, Reserve: locking.NeverReserve},
		Misfire: Misfire{NoReplica: "run_all", MaxAge: 6 * time.Hour}, Recover: true})
	report := NewBuiltJob(Job{Name: "report", Spec: schedule.Spec{After: []string{"rollup"}},
		Handler: "sql", Params: mustParams(t, map[string]string{"statement": "SELECT 2"})})
	got, err := Build(built, WithBuiltJobs(rollup, report))
	if err != nil {
		t.Fatal(err)
	}
	if err := got.CheckRead(); err != nil {
		t.Error(err)
	}
	if got.String() != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for i, j := range got.Jobs {
		if j.digest() != want.Jobs[i].digest() {
			t.Errorf("job %s: schedule, locks or params differ from those of the file:\n%s\n%s",
				j.Name, j.Params.JSON(), want.Jobs[i].Params.JSON())
		}
	}
	if got.Database.URL != built.Database.URL {
		t.Errorf("got URL %q, want %q", got.Database.URL.Reveal(), built.Database.URL.Reveal())
	}
	again, err := Build(*got)
	if err != nil || again.String() != want.String() {
		t.Errorf("built again: got %v, %v, want the same", again, err)
	}
}

// TestFileWithBuiltJobs reports all mistakes in a file and in jobs of Go at once, each with its
// place.
func TestFileWithBuiltJobs(t *testing.T) {
	_, err := Parse("holdfast.yaml", []byte(`
workers: 0
jobs:
  - {name: first, schedule: {after: [third]}, handler: sql, tables: [a]}
  - {name: second, schedule: {after: [nowhere]}, handler: sql}
`), WithBuiltJobs(
		NewBuiltJob(Job{Name: "third", Handler: "sql", Tables: []string{"a..b"},
			Spec: schedule.Spec{Cron: "61 * * * *"}}),
		NewBuiltJob(Job{Name: "first", Handler: "sql",
			Spec: schedule.Spec{Cron: "* * * * *", Every: time.Minute}}),
		NewBuiltJob(Job{Handler: "sql", Timeout: -time.Second},
			Mistake{"schedule", "found nothing"}, Mistake{"", "found no tables"}),
		NewBuiltJob(Job{Name: "fifth", Handler: "sql", Resources: []Resource{{Name: "g"}},
			Spec: schedule.Spec{After: []string{"first"}}}),
		NewBuiltJob(Job{Name: "fifth", Handler: "sql",
			Resources: []Resource{{Name: "g", Slots: 2}}}),
	))
	var wrong *Errors
	if !errors.As(err, &wrong) {
		t.Fatalf("got %v, want *Errors", err)
	}
	var got []string
	for _, p := range wrong.Problems {
		got = append(got, p.String())
	}
	for _, want := range []string{
		`holdfast.yaml:2:10: workers: found 0, expected`,
		`holdfast.yaml:5:39: jobs[1].schedule.after[0]: unknown job "nowhere"`,
		`job "third": tables[0]: found a name that cannot be locked`,
		`job "third": schedule: found "61 * * * *"`,
		`job "first": schedule: found cron and every, expected one of`,
		`job "first": name: found "first" a second time, expected each job once; ` +
			`the first is in line 4`,
		`job 3 in Go: name: found nothing, expected the job's name`,
		`job 3 in Go: timeout: found "-1s"`,
		`job 3 in Go: schedule: found nothing`,
		`job 3 in Go: found no tables`,
		`job "fifth": name: found "fifth" a second time, expected each job once; ` +
			`the first is job 4 in Go, the second is job 5 in Go`,
		`job "fifth": resources[0].name: found "g" with 2 slots, expected no slots as in job "fifth"`,
	} {
		found := false
		for _, line := range got {
			found = found || strings.HasPrefix(line, want)
		}
		if !found {
			t.Errorf("no mistake begins with\n%s in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if len(got) != 12 {
		t.Errorf("got %d mistakes, want 12:\n%s", len(got), strings.Join(got, "\n"))
	}
}

// TestBuiltJobWithoutAUnit checks the message for a duration that Go code gives as a number.
func TestBuiltJobWithoutAUnit(t *testing.T) {
	_, err := Parse("holdfast.yaml", nil, WithBuiltJobs(NewBuiltJob(Job{Name: "a", Handler: "sql",
		Spec: schedule.Spec{Cron: "* * * * *"}, Timeout: 30, Retry: retry.Policy{Delay: 5}})))
	var wrong *Errors
	if !errors.As(err, &wrong) {
		t.Fatalf("got %v, want *Errors", err)
	}
	const hint = "expected 0s, or 1ms or more; in Go, a number without a unit is in nanoseconds"
	for _, want := range []string{`job "a": timeout: found "30ns", ` + hint,
		`job "a": retry.delay: found "5ns", ` + hint} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestBuildRefusesWhatWasNotBegun(t *testing.T) {
	if _, err := Build(Config{Workers: 8}); !errors.Is(err, ErrNotBegun) {
		t.Errorf("got %v, want ErrNotBegun", err)
	}
}

// TestEveryKeyCanBeBuilt fails when a key gets a type that Build cannot write.
func TestEveryKeyCanBeBuilt(t *testing.T) {
	c := mustParse(t, full, WithEnv(secretive))
	again, err := Build(*c, WithEnv(secretive))
	if err != nil {
		t.Fatal(err)
	}
	if again.String() != c.String() {
		t.Errorf("got\n%s\nwant\n%s", again, c)
	}
	for i, j := range again.Jobs {
		if !reflect.DeepEqual(j.Requests, c.Jobs[i].Requests) {
			t.Errorf("job %s: got locks %v, want %v", j.Name, j.Requests, c.Jobs[i].Requests)
		}
	}
}

// TestBuildLeavesOutKeysThatTheFileLeftOut builds elements without keys that may not be empty.
func TestBuildLeavesOutKeysThatTheFileLeftOut(t *testing.T) {
	for _, text := range []string{
		"webhooks: [{name: a, url: 'http://a.b', secret: " + sum + ", retry: {jitter: 0}}]",
		"admin: {trusted_proxy: {networks: [10.1.0.0/16], user_header: X-User}}",
		"calendars: [{name: a, exclude: {weekdays: [sat]}}]",
		"admin: {roles: [{name: a, permissions: [view]}]}",
		"admin: {tokens: [{name: a, token_hash: '" + sum + "'}]}",
	} {
		read := mustParse(t, text)
		if built, err := Build(*read); err != nil || built.String() != read.String() {
			t.Errorf("%s: got %v, %v, want the same", text, built, err)
		}
	}
}

// TestParamsOfGoHaveNoVariables builds params with ${ in names and in texts.
func TestParamsOfGoHaveNoVariables(t *testing.T) {
	for _, params := range []any{
		map[string]any{"${HOME}": 1},
		map[string]any{"a": map[string]any{"${HOME}": "${HOME}",
			"b\"${": []any{"\"${A}\\", "$${A}"}}},
		json.RawMessage(`{ "\u0024{A" : "\u0024{A}", "b": [ "$\u007bA}\n", 1.50 ] }`),
	} {
		want, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Build(Defaults(), WithBuiltJobs(NewBuiltJob(Job{Name: "a",
			Spec: schedule.Spec{Cron: "0 2 * * *"}, Handler: "own",
			Params: mustParams(t, params)})))
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		var a, b any
		if err := errors.Join(json.Unmarshal(want, &a),
			json.Unmarshal(got.Jobs[0].Params.JSON(), &b)); err != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s: got %s, %v", want, got.Jobs[0].Params.JSON(), err)
		}
	}
}

// TestUnlimitedAttempts writes policies that only elapsed limits, which 0 cannot express in Go.
func TestUnlimitedAttempts(t *testing.T) {
	job := func(elapsed time.Duration) BuiltJob {
		return NewBuiltJob(Job{Name: "a", Spec: schedule.Spec{Cron: "0 2 * * *"}, Handler: "sql",
			Params: mustParams(t, map[string]string{"statement": "SELECT 1"}),
			Wait:   Wait{Attempts: UnlimitedAttempts, Elapsed: elapsed},
			Retry: retry.Policy{Attempts: UnlimitedAttempts, Delay: time.Second,
				Elapsed: elapsed}})
	}
	got, err := Build(Defaults(), WithBuiltJobs(job(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	if j := got.Jobs[0]; j.Wait.Attempts != 0 || j.Retry.Attempts != 0 ||
		j.Retry.Elapsed != time.Hour {
		t.Errorf("got wait %+v and retry %+v, want attempts without a limit", j.Wait, j.Retry)
	}
	_, err = Build(Defaults(), WithBuiltJobs(job(0)))
	for _, key := range []string{"wait.attempts", "retry.attempts"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("no limit at all: got %v, want a mistake at %s", err, key)
		}
	}
}

// TestManyBuiltJobs reads more jobs than a window has, with mistakes in some of them.
func TestManyBuiltJobs(t *testing.T) {
	const n = 1_234
	build := func(wrong func(i int) bool) ([]string, error) {
		built := make([]BuiltJob, n)
		for i := range built {
			job := Job{Name: fmt.Sprintf("job-%04d", i), Handler: "sql", Tables: []string{"a"},
				Params: mustParams(t, map[string]string{"statement": "SELECT 1"})}
			if wrong(i) {
				job.Timeout, job.Tables = -time.Second, []string{"a..b"}
			}
			built[i] = NewBuiltJob(job)
		}
		config, err := Build(Defaults(), WithBuiltJobs(built...))
		if err != nil {
			return nil, err
		}
		names := make([]string, len(config.Jobs))
		for i, j := range config.Jobs {
			names[i] = j.Name
		}
		return names, config.CheckRead()
	}
	names, err := build(func(int) bool { return false })
	if err != nil || len(names) != n || !slices.IsSorted(names) {
		t.Errorf("got %d jobs (sorted: %v), %v, want %d in their order", len(names),
			slices.IsSorted(names), err, n)
	}
	for _, test := range []struct {
		every, problems int
		last            string
	}{{400, 8, `job "job-1200"`}, {1, maxProblems + 1, `job "job-0100"`}} {
		_, err := build(func(i int) bool { return i%test.every == 0 })
		var wrong *Errors
		if !errors.As(err, &wrong) || len(wrong.Problems) != test.problems {
			t.Errorf("mistakes in each of %d jobs: got %.500v, want %d mistakes", test.every, err,
				test.problems)
			continue
		}
		if last := wrong.Problems[test.problems-1].File; last != test.last {
			t.Errorf("mistakes in each of %d jobs: got %s last, want %s", test.every, last,
				test.last)
		}
	}
}
