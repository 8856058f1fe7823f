package configs

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

func parseJob(c *Config, text string, opts ...Option) (*Job, error) {
	return c.ParseJob("job", []byte(text),
		append([]Option{withBuiltins(), WithEnv(noEnv)}, opts...)...)
}

// Every job of the examples parses from its stored text, with a configuration of other defaults.
func TestJobRoundTrip(t *testing.T) {
	paths, err := filepath.Glob("*.yaml")
	if err != nil || len(paths) < 3 {
		t.Fatalf("got example files %q (%v), want at least 3", paths, err)
	}
	read := 0
	for _, path := range paths {
		c, err := Load(path, withBuiltins(), WithEnv(variables))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for _, written := range c.Jobs {
			read++
			checkReadAgain(t, c, written, withBuiltins(), WithEnv(variables))
		}
	}
	if read < 10 {
		t.Errorf("only %d jobs were read", read)
	}
}

func variables(name string) (string, bool) { return "value", name == "NAME" }

func checkReadAgain(t *testing.T, c *Config, written Job, opts ...Option) {
	t.Helper()
	text, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.ParseJob("job", text, opts...)
	if err != nil {
		t.Errorf("%s: %v in %s", written.Name, err, text)
		return
	}
	others := mustParse(t,
		`{added_jobs: {allowed_env: [NAME]}, timezone: Asia/Tokyo, default_schema: elsewhere, misfire_threshold: 7s, locking: {wait: {attempts: 1}}}`)
	others.Calendars = c.Calendars
	kept, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := others.ParseJob("job", kept, opts...)
	if err != nil {
		t.Errorf("%s: %v in %s", written.Name, err, kept)
		return
	}
	if diff := cmp.Diff(first.String(), again.String()); diff != "" ||
		!reflect.DeepEqual(again.Requests, written.Requests) ||
		!reflect.DeepEqual(again.Requests, first.Requests) {
		t.Errorf("%s: %s; locks %v, then %v and %v", written.Name, diff, written.Requests,
			first.Requests, again.Requests)
	}
	if string(again.Params.JSON()) != string(written.Params.JSON()) ||
		again.Schedule.Fingerprint() != written.Schedule.Fingerprint() ||
		again.Schedule.Zone().String() != written.Schedule.Zone().String() {
		t.Errorf("%s: another job: %s", written.Name, again)
	}
}

func TestTablesOfSingleJobAreQualified(t *testing.T) {
	c := mustParse(t, `{default_schema: '"Ware ""House"""'}`)
	j, err := c.ParseJob("job",
		[]byte(
			`{name: a, handler: own, params: {account: acme}, tables: [orders, "events_{account}", '"Odd.One"', other.t, sales.*], read_tables: [Rates]}`), WithEnv(noEnv))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`"Ware ""House""".orders`, `"Ware ""House""".events_{account}`,
		`"Ware ""House"""."Odd.One"`, `other.t`, `sales.*`}
	if diff := cmp.Diff(want, j.Tables); diff != "" || j.ReadTables[0] != `"Ware ""House""".Rates` {
		t.Errorf("got read tables %v; tables differ (-want +got):\n%s", j.ReadTables, diff)
	}
	checkReadAgain(t, c, *j, WithEnv(variables))
}

// JSON and YAML write these values differently.
func TestJobTextIsPreserved(t *testing.T) {
	c := mustParse(t, "added_jobs: {allowed_env: [NAME]}")
	for _, value := range []string{"", "${NAME}", "$${NAME}", "$$", "a\tb\nc", "\"'\\/",
		"🙂 ä\u2028", "<&>", "# no comment", "*", "@", "- a", "0x10", "yes", "null", "1e3"} {
		params, err := json.Marshal(map[string]string{"statement": value})
		if err != nil {
			t.Fatal(err)
		}
		j, err := c.ParseJob("job",
			[]byte(`{"name": "a", "handler": "sql", "params": `+string(params)+`}`), withBuiltins(),
			WithEnv(variables))
		if err != nil {
			t.Errorf("%q: %v", value, err)
			continue
		}
		checkReadAgain(t, c, *j, withBuiltins(), WithEnv(variables))
	}
}

// An added job may use only the variables that the configuration allows. None of their values is
// shown.
func TestVariablesOfAddedJobs(t *testing.T) {
	c := mustParse(t, "added_jobs: {allowed_env: [NAME]}")
	const job = `{"name": "a", "handler": "sql", "params": {"statement": "SELECT 1"}, `
	for _, test := range []struct{ text, want string }{
		{`{"name": "a", "handler": "sql", "params": {"statement": "${SECRET}"}}`,
			"params.statement: found the variable SECRET, expected one of added_jobs.allowed_env"},
		{`{"name": "a", "handler": "sql", "params": {"statement": "${SECRET:-x}"}}`,
			"params.statement: found the variable SECRET"},
		{job + `"description": "${NAME}"}`, `description: found "${NAME}", expected a text without variables`},
		{job + `"description": "${SECRET}"}`, "description: found the variable SECRET"},
		{job + `"tables": ["${NAME}"]}`, `tables[0]: found "${NAME}", expected a text without`},
		{job + `"timeout": "${NAME}"}`, `timeout: found "${NAME}"`},
		{job + `"retry": {"attempts": "${NAME}"}}`, `retry.attempts: found "${NAME}"`},
		{`{"name": "a", "handler": "own", "params": {"p": "${NAME}"}, "tables": ["t_{p}"]}`,
			"tables[0]: found the placeholder {p} for a param with a variable"},
	} {
		_, err := parseJob(c, test.text, WithEnv(func(name string) (string, bool) {
			return "hunter2", true
		}))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: found %v, expected %s", test.text, err, test.want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the value is shown: %v", test.text, err)
		}
	}
	j, err := parseJob(c,
		`{"name": "a", "handler": "sql", "params": {"statement": "SELECT '${NAME}'"}}`,
		WithEnv(variables))
	if err != nil {
		t.Fatal(err)
	}
	if kept := j.String(); string(j.Params.JSON()) != `{"statement":"SELECT 'value'"}` ||
		!strings.Contains(kept, "SELECT '${NAME}'") || strings.Contains(kept, "'value'") {
		t.Errorf("found %s, kept as %s", j.Params.JSON(), kept)
	}
	_, err = parse("added_jobs: {allowed_env: [A-B, '', A]}")
	if err == nil || !strings.Contains(err.Error(), "added_jobs.allowed_env[0]: found \"A-B\"") {
		t.Errorf("found %v", err)
	}
}

func TestMistakesInSingleJob(t *testing.T) {
	c := mustParse(t,
		`{added_jobs: {allowed_env: [NAME]}, calendars: [{name: holidays, exclude: {dates: ["12-25"]}}], jobs: [{name: first, handler: sql, schedule: "@daily", resources: [{name: api, slots: 5}]}, {name: second, handler: sql, schedule: {after: [mine]}}, {name: mine, handler: sql, schedule: "@daily"}]}`)
	added := map[string]schedule.Schedule{"added": c.Jobs[0].Schedule}
	for _, m := range []struct{ what, text, want string }{
		{"empty", ``, `job:1:1: found nothing, expected a job`},
		{"a list", `[{name: a}]`, `job:1:1: found a list, expected a mapping`},
		{"a whole file", "jobs:\n  - name: a", `job:1:1: jobs: unknown key`},
		{"no name", `{handler: sql}`, `job:1:1: name: found nothing, expected the job's name`},
		{"a misspelt key", `{name: a, handler: sql, tabels: [x]}`,
			`job:1:25: tabels: unknown key; did you mean "tables"?`},
		{"a misspelt handler", `{name: a, handler: slq}`,
			`job:1:20: handler: unknown handler "slq"; did you mean "sql"?`},
		{"a wrong param", `{name: a, handler: sql, params: {statment: x}}`,
			`job:1:34: params.statment: unknown key`},
		{"a wrong schedule", `{name: a, handler: sql, schedule: "99 * * * *"}`,
			`job:1:35: schedule: found`},
		{"an unknown calendar", `{name: a, handler: sql, schedule: "@daily", calendars: [holiday]}`,
			`job:1:57: calendars[0]: unknown calendar "holiday"; did you mean "holidays"?`},
		{"other slots than a configured job",
			`{name: a, handler: sql, resources: [{name: api, slots: 3}]}`,
			`found "api" with 3 slots, expected 5 slots as in job first`},
		{"a circle", `{name: mine, handler: sql, schedule: {after: [second]}}`,
			`found jobs that wait for each other: mine after second after mine, expected no cycle`},
		{"an unknown job", `{name: mine, handler: sql, schedule: {after: [frist]}}`,
			`schedule.after[0]: unknown job "frist"; did you mean "first"?`},
		{"a variable that is a number", "name: a\nhandler: sql\nparams:\n  args:\n    - ${NAME}",
			`params.args[0]: found "${NAME}" without quotes`},
		{"a second document", "name: a\n---\nname: b", `expected one a file`},
	} {
		_, err := parseJob(c, m.text, WithJobs(added), WithEnv(func(string) (string, bool) {
			return "12", true
		}))
		if err == nil || !strings.Contains(err.Error(), m.want) ||
			strings.Contains(err.Error(), "jobs[") {
			t.Errorf("%s: got %v, want %s", m.what, err, m.want)
		}
	}
	j, err := parseJob(c,
		`{name: a, handler: sql, schedule: {after: [first, added]}, resources: [{name: api, slots: 5}]}`, WithJobs(added))
	if err != nil || j.Overlap != "skip" || j.Timezone != "UTC" {
		t.Errorf("got job %v (%v), want the defaults of the stored text", j, err)
	}
	if _, err := parseJob(c,
		`{name: first, handler: sql, resources: [{name: api, slots: 4}]}`); err != nil {
		t.Errorf("a job in place of a configured one: %v", err)
	}
}
