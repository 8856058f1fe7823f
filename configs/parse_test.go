package configs

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests use time zones

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/retry"
)

var update = flag.Bool("update", false, "write the golden files anew")

func parse(text string, opts ...Option) (*Config, error) {
	return Parse("c.yaml", []byte(text),
		slices.Concat([]Option{withBuiltins(), WithEnv(noEnv)}, opts)...)
}

func mustParse(t testing.TB, text string, opts ...Option) *Config {
	t.Helper()
	c, err := parse(text, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAllMistakesAtOnce(t *testing.T) {
	path := filepath.Join("testdata", "mistakes.yaml")
	golden := filepath.Join("testdata", "mistakes.golden")
	_, err := Load(path, withBuiltins(), WithEnv(noEnv))
	var all *Errors
	if !errors.As(err, &all) {
		t.Fatalf("got %v, want *Errors", err)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, readErr := os.ReadFile(golden)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"),
		strings.Split(filepath.ToSlash(err.Error())+"\n", "\n")); diff != "" {
		t.Errorf("messages differ:\n%s", diff)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Error("message: got one with the password, want it redacted")
	}
}

func TestEmptyFileIsTheDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "\ufeff", "{}\n"} {
		c := mustParse(t, text)
		if c.Replica.Name == "" {
			t.Errorf("%q: the replica has no name", text)
		}
		c.Replica = Replica{}
		if want := Defaults(); c.String() != want.String() {
			t.Errorf("%q: configuration differs from the defaults (-want +got):\n%s", text,
				cmp.Diff(want.String(), c.String()))
		}
	}
}

func TestRandomReplicaNameIsMarked(t *testing.T) {
	if !mustParse(t, "").Replica.Drawn || mustParse(t, "replica: {name: one}").Replica.Drawn {
		t.Errorf("got Drawn %v without a name and %v with one, want true and false",
			mustParse(t, "").Replica.Drawn, mustParse(t, "replica: {name: one}").Replica.Drawn)
	}
}

func TestReplicaNamesOfOneHostDiffer(t *testing.T) {
	if a, b := mustParse(t, ""), mustParse(t, ""); a.Replica.Name == b.Replica.Name {
		t.Errorf("two replicas are called %s", a.Replica.Name)
	}
}

func TestUnreadableFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestJobsInheritDefaults(t *testing.T) {
	c := mustParse(t, `
jobs:
  - {name: a, handler: sql}
  - {name: b, handler: sql, timezone: UTC, wait: {attempts: 7, reserve: 0s}, misfire_threshold: 5s, schedule: "0 12 * * *"}
  - {name: c, handler: sql, schedule: "0 12 * * *", retry: {attempts: 3}}
timezone: Europe/Berlin
misfire_threshold: 1m
locking: {wait: {attempts: 2, delay: 1s, backoff: constant, reserve: 20s}}
`)
	a, b, third := c.Jobs[0], c.Jobs[1], c.Jobs[2]
	wait := Wait{Attempts: 2, Delay: time.Second, MaxDelay: 5 * time.Second,
		Backoff: retry.Constant, Jitter: 0.2, Reserve: 20 * time.Second}
	if a.Wait != wait || a.MisfireThreshold != time.Minute || a.Timezone != "Europe/Berlin" {
		t.Errorf("job a: %s", a)
	}
	wait.Attempts, wait.Reserve = 7, 0
	if b.Wait != wait || b.MisfireThreshold != 5*time.Second || b.Timezone != "UTC" {
		t.Errorf("job b: %s", b)
	}
	if want := (retry.Policy{Attempts: 3, Delay: 10 * time.Second,
		Backoff: retry.Constant}); third.Retry != want {
		t.Errorf("job c retries by %+v, want %+v", third.Retry, want)
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if next := a.Schedule.Next(from); !next.IsZero() {
		t.Errorf("job a: got scheduled time %v, want none without a schedule", next)
	}
	if next := b.Schedule.Next(from); !next.Equal(from.Add(12 * time.Hour)) {
		t.Errorf("job b: got scheduled time %v, want noon in UTC", next)
	}
	if next := third.Schedule.Next(from); !next.Equal(from.Add(11 * time.Hour)) {
		t.Errorf("job c: got scheduled time %v, want noon in Berlin", next)
	}
}

func TestPolicies(t *testing.T) {
	c := mustParse(t, `
groups: [{name: night, per_cluster: 4, per_replica: 2}]
jobs:
  - {name: a, handler: sql, misfire: run_all, group: night, priority: 9, deadline: 10m}
  - {name: b, handler: sql, misfire: {no_replica: skip, lock_held: run_once, limit: 3, max_age: 2h}, group: elsewhere}
`)
	a, b := c.Jobs[0], c.Jobs[1]
	if want := (Misfire{NoReplica: "run_all", NoWorker: "run_all", Paused: "skip", LockHeld: "skip",
		Limit: 100}); a.Misfire != want {
		t.Errorf("one policy: %+v, want %+v", a.Misfire, want)
	}
	if want := (Misfire{NoReplica: "skip", NoWorker: "run_once", Paused: "skip",
		LockHeld: "run_once", Limit: 3, MaxAge: 2 * time.Hour}); b.Misfire != want {
		t.Errorf("policies by cause: %+v, want %+v", b.Misfire, want)
	}
	if a.Priority != 9 || b.Priority != 5 || a.Deadline != 10*time.Minute || b.Deadline != 0 {
		t.Errorf("priorities and deadlines of %s and %s", a, b)
	}
	if got := c.Group(a.Group); got != (Group{Name: "night", PerCluster: 4, PerReplica: 2}) {
		t.Errorf("group %+v", got)
	}
	if got := c.Group(b.Group); got != (Group{Name: "elsewhere"}) {
		t.Errorf("a group without limits is %+v", got)
	}
}

func TestScheduleForms(t *testing.T) {
	c := mustParse(t, `
jobs:
  - {name: a, handler: sql, schedule: "*/5 * * * *"}
  - {name: b, handler: sql, schedule: "@every 90s"}
  - {name: c, handler: sql, schedule: {every: 90s}}
  - {name: d, handler: sql, schedule: {at: 2026-01-31T09:00:00Z}}
  - {name: e, handler: sql, schedule: {cron: "@daily"}}
  - {name: f, handler: sql, schedule: {quartz: "0 0 12 LW * ?"}}
  - {name: g, handler: sql, schedule: "quartz:0 0 12 LW * ?"}
  - {name: h, handler: sql, schedule: {every: 1 month, at: 02:30, on: 15}}
  - {name: i, handler: sql, schedule: every 20m between 09:00 and 17:00 on mon-fri}
  - {name: j, handler: sql, schedule: {every: 20m, between: 09:00-17:00, on: "mon-fri"}}
  - {name: k, handler: sql, schedule: {after: [a, i]}}
  - {name: l, handler: sql, schedule: "after:a,i"}
  - {name: m, handler: sql}
`)
	want := []schedule.Spec{
		{Cron: "*/5 * * * *"}, {Cron: "@every 90s"}, {Every: 90 * time.Second},
		{At: time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)}, {Cron: "@daily"},
		{Quartz: "0 0 12 LW * ?"}, {Quartz: "0 0 12 LW * ?"},
		{Recurrence: schedule.Recurrence{Every: "1 month", At: "02:30", On: "15"}},
		{Recurrence: schedule.Recurrence{Every: "20m", Between: "09:00 and 17:00", On: "mon-fri"}},
		{Recurrence: schedule.Recurrence{Every: "20m", Between: "09:00-17:00", On: "mon-fri"}},
		{After: []string{"a", "i"}}, {After: []string{"a", "i"}}, {},
	}
	if a, b := c.Jobs[8].Schedule.String(), c.Jobs[9].Schedule.String(); a != b {
		t.Errorf("as words %q, as a mapping %q", a, b)
	}
	for i, j := range c.Jobs {
		if !reflect.DeepEqual(j.Spec, want[i]) {
			t.Errorf("%s: got %+v, want %+v", j.Name, j.Spec, want[i])
		}
		again := mustParse(t,
			`{"jobs": [{"name": "a", "handler": "sql", "schedule": "@daily"}, {"name": "i", "handler": "sql", "schedule": "@daily"}, `+strings.Replace(j.String(), `"name":"`, `"name":"again `, 1)+`]}`)
		if got := again.Jobs[2].Schedule; got.String() != j.Schedule.String() {
			t.Errorf("%s: written as %s and read as %s", j.Name, j.Schedule, got)
		}
	}
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	c := mustParse(t, `
jobs:
  - &base
    name: a
    handler: sql
    timeout: 1m
    tables: &tables [orders]
    params: {statement: SELECT 1}
  - {<<: *base, name: b, timeout: 2m}
  - name: c
    handler: command
    tables: *tables
`)
	if b := c.Jobs[1]; b.Name != "b" || b.Handler != "sql" || b.Timeout != 2*time.Minute ||
		b.Params.String() != `{"statement":"SELECT 1"}` {
		t.Errorf("job b: %s", b)
	}
	if len(c.Jobs[2].Requests) != 1 {
		t.Errorf("job c: %s", c.Jobs[2])
	}
}

// Without handlers, Parse checks neither handlers nor params.
func TestWithoutHandlers(t *testing.T) {
	if _, err := Parse("c.yaml",
		[]byte("jobs: [{name: a, handler: none, params: {x: 1}}]")); err != nil {
		t.Error(err)
	}
}

// Jobs with the same schedule share it, so that many jobs take little memory. Whatever decides
// scheduled times makes another schedule.
func TestJobsShareSchedules(t *testing.T) {
	written := []string{`schedule: "30 2 * * *"`,
		`schedule: "30 2 * * *", timezone: Europe/Berlin`,
		`schedule: "30 2 * * *", jitter: 1m`,
		`schedule: "30 2 * * *", calendars: [weekend]`,
		`schedule: "30 2 * * *", clock_changes: {overlap: both}`,
		`schedule: {quartz: "0 30 2 * * ?"}`,
		`schedule: {every: 1 day, at: "02:30"}`,
		`schedule: {every: 90s}`,
		`recover: false`,
		`schedule: {after: [job-0-0]}`,
		`schedule: {at: "2031-01-01T00:00:00Z"}`}
	const shared = 9 // of them
	text := "calendars: [{name: weekend, exclude: {weekdays: [sat-sun]}}]\njobs:\n"
	for i, keys := range written {
		for n := range 2 {
			text += fmt.Sprintf("- {name: job-%d-%d, handler: sql, params: {statement: x}, "+
				"%s}\n", i, n, keys)
		}
	}
	c := mustParse(t, text)
	for i, one := range c.Jobs {
		for j, other := range c.Jobs[:i] {
			want := i/2 == j/2 && i/2 < shared
			if got := one.Schedule == other.Schedule; got != want {
				t.Errorf("%s and %s share their schedule: got %t, want %t", written[i/2],
					written[j/2], got, want)
			}
			if same := one.Schedule.Fingerprint() == other.Schedule.Fingerprint(); i/2 == j/2 &&
				!same {
				t.Errorf("%s: got two fingerprints, want one", written[i/2])
			}
		}
	}
}
