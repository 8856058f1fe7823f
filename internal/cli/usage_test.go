package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/holdfast-dev/holdfast/admin"
)

// TestMistakesInArguments checks the error and the exit code of commands with wrong arguments.
func TestMistakesInArguments(t *testing.T) {
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"fly", 1, `unknown command "fly" for "scheduler"; list commands with "scheduler --help"`},
		{"trigerr x", 1, `unknown command "trigerr" for "scheduler"; did you mean "trigger"?`},
		{"audit exprot", 1, `unknown command "exprot" for "scheduler audit"; did you mean "export"?`},
		{"import cronatb x", 1,
			`unknown command "cronatb" for "scheduler import"; did you mean "crontab"?`},
		{"cancel json b", 1, "found 2 arguments, usage: scheduler cancel RUN [flags]"},
		{"import crontab f --timezone Europ/Berlin", 1, `--timezone: unknown zone "Europ/Berlin", ` +
			"expected a name such as Europe/Berlin"},
		{"import crontab f --timezone Local", 1, `--timezone: unknown zone "Local", ` +
			"expected a name such as Europe/Berlin"},
		{"trigger a --params=", 1, "--params: found nothing, expected a JSON object; leave out " +
			"the flag to run the job with its own params"},
		{"trigger", 1, "found no arguments, usage: scheduler trigger JOB [flags]"},
		{"cancel a b", 1, "found 2 arguments, usage: scheduler cancel RUN [flags]"},
		{"status now", unknownStatus, "found 1 argument, usage: scheduler status [flags]"},
		{"status --server", unknownStatus, "flag needs an argument: --server"},
		{"doctor now", checkFailed, "found 1 argument, usage: scheduler doctor [flags]"},
		{"audit verify now", notVerified,
			"found 1 argument, usage: scheduler audit verify [flags]"},
		{"next --server http://a", 1, `--server: the command "scheduler next" does not ask a server;` +
			" run it where the configuration is"},
		{"version --token-file t", 1, `--token-file: the command "scheduler version" does not ask ` +
			"a server; run it where the configuration is"},
		{"jobs --plain-http", 1, "--token-file and --plain-http: expected --server too, found none"},
		{"trigger x --raeson y", 1, `unknown flag: --raeson; did you mean "--reason"?`},
		{"explain a -2h", 1, "unknown shorthand flag: '2' in -2h; write -- before " +
			"arguments that begin with a hyphen, and flags before that"},
		{"next -x", 1, "unknown shorthand flag: 'x' in -x"},
		{"next @daily", 1, `; for a schedule expression, use --schedule "@daily"`},
		{"runs -n x", 1, `--count: expected a whole number, found "x"`},
		{"trigger a --delay soon", 1,
			`--delay: expected a duration such as 90s, 10m or 2h, found "soon"`},
		{"trigger a --wait=maybe", 1, `--wait: expected true or false, found "maybe"`},
		{"jobs -o xml", 1, "unknown format; expected one of table, wide, json, yaml"},
		{"jobs -o jsno", 1, `unknown format; did you mean "json"?`},
		{"runs --state runing", 1, `found "runing"; did you mean "running"?`},
		{"runs --since monday", 1, "--since: expected a time such as "},
		{"runs --since=", 1, "--since: found nothing, expected a time such as "},
		{"trigger a --at=", 1, "--at: found nothing, expected a time such as "},
		{"backfill a --from=", 1, "--from: found nothing, expected a time such as "},
		{"runs x --since -2h", 1,
			"--since: not allowed with the id of a run, because it is only for lists"},
		{"runs x -n 5", 1,
			"--count: not allowed with the id of a run, because it is only for lists"},
		{"runs x --attempt 1 -o wide", 1, `run: expected an id, found "x"`},
		{"backfills x --job a", 1,
			"--job: not allowed with the id of a backfill, because it is only for lists"},
		{"backfills -n 0", 1, "-n: expected 1 to 1000, found 0"},
		{"backfills -n 1001", 1, "-n: expected 1 to 1000, found 1001"},
		{"trigger a --key=", 1, "--key: found nothing, expected a key"},
		{"backfill a --from 2026-03-01T00:00:00Z --key=", 1,
			"--key: found nothing, expected a key"},
		{"audit export --until=", 1, "--until: found nothing, expected a time such as "},
		{"next --from=", 1, "--from: found nothing, expected a time such as "},
		{"audit --action puase", 1, `--action: unknown action "puase"; did you mean "pause"?`},
	} {
		got := perform(t, nil, strings.Fields(test.args)...)
		if got.code != test.code || !strings.HasSuffix(got.err, test.want) &&
			!strings.Contains(got.err, test.want+"2026") || strings.Contains(got.err, "\n") {
			t.Errorf("%s: got %+v, want exit code %d and %q", test.args, got, test.code, test.want)
		}
	}
	for _, args := range [][]string{nil, {"import"}, {"--help"}} {
		if got := perform(t, nil, args...); got.code != 0 ||
			!strings.Contains(got.out, "Available Commands:") {
			t.Errorf("%q: got %+v, want the list of commands", args, got)
		}
	}
}

// TestUnknownNames checks that an unknown name is an error with the most similar name.
func TestUnknownNames(t *testing.T) {
	s := serve(t)
	perform(t, nil, "pause", "weekly", "-c", s.config)
	token := s.token(t, operatorToken)
	const backfill = "01a1fecc-ef57-7d76-aac5-e8f353379cd3"
	for args, want := range map[string]string{
		"trigger wekly":               `not found in the store; did you mean "weekly"?`,
		"trigger other":               "not found in the store; check that a replica with this job runs",
		"pause nightyl":               `did you mean "nightly"?`,
		"resume wekly":                `it has no pause of its own; did you mean "weekly"?`,
		"resume nightyl":              `it has no pause of its own; did you mean "nightly"?`,
		"resume --group report":       `it has no pause of its own; did you mean "reports"?`,
		"resume other":                `it has no pause of its own; list pauses with`,
		"resume nightly":              `it has no pause of its own; list pauses with`,
		"backfills --job nightyl":     `not found in the store; did you mean "nightly"?`,
		"runs --backfill " + backfill: "backfill " + backfill + ": not found; list backfills with",
		"pause --group report":        `group "report": not found in the store; did you mean "reports"?`,
		"runs --group report":         `group "report": not found in the store; did you mean "reports"?`,
		"runs --replica web-2":        `replica "web-2": not found in the store; did you mean "web-1"?`,
		"runs --job nightyl":          `not found in the store; did you mean "nightly"?`,
		"explain nightyl now":         `unknown job "nightyl"; did you mean "nightly"?`,
		"drain web-2":                 `no live replica has this name or session id; did you mean "web-1"?`,
		"replicas remove web-7":       `replica "web-7": no lost replica has this name or session id`,
		"remove weekly-2":             "no added job has this name",
		"release public/totals":       "release public/totals: it is not locked",
		"webhooks again x":            "delivery: expected an id",
		"trigger weekly --key":        "flag needs an argument: --key",
		"add -f /nothing/at/all":      "no such file",
		"runs 01a1fecc":               "run: expected an id",
		"audit export --since soon":   "--since: expected a time",
	} {
		for _, by := range [][]string{{"-c", s.config},
			{"--server", s.server, "--token-file", token}} {
			got := perform(t, nil, append(by, strings.Fields(args)...)...)
			if got.code != 1 || !strings.Contains(got.err, want) || got.out != "" {
				t.Errorf("%s %s: got %+v, want exit code 1 and %q", by[0], args, got, want)
			}
		}
	}
}

// TestNamesThatMayBeRight checks that a name without a similar one is no error where it may be that
// of a future group, or of a former replica.
func TestNamesThatMayBeRight(t *testing.T) {
	s := serve(t)
	got := perform(t, nil, "pause", "--group", "x", "-c", s.config)
	if got.code != 0 || !strings.Contains(got.out, "group x") ||
		got.notes != "scheduler: note: no job is in group \"x\" now\n" {
		t.Errorf("a pause of a group without jobs: got %+v", got)
	}
	got = perform(t, nil, "pause", "--group", "reports", "-c", s.config)
	if got.code != 0 || got.notes != "" {
		t.Errorf("a pause of a group with jobs: got %+v", got)
	}
	got = perform(t, nil, "runs", "--replica", "nobody", "-o", "json", "-c", s.config)
	if got.code != 0 || strings.TrimSpace(got.out) != "[]" {
		t.Errorf("runs of a former replica: got %+v", got)
	}
}

// TestMistakesInFormats checks that errors have the format of the output, wherever the flag is.
func TestMistakesInFormats(t *testing.T) {
	config := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(config, []byte("wrokers: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"validate", "-c", config, "-o", "json"}, {"validate", "-c", config, "-o=json"},
		{"validate", "-ojson", "-c", config}, {"validate", "--output=json", "-c", config},
	} {
		var m mistake
		got := perform(t, nil, args...)
		if err := json.Unmarshal([]byte(got.err), &m); err != nil || got.code != 1 ||
			len(m.Problems) == 0 || m.Problems[0].Line != 1 || m.Problems[0].Key != "wrokers" {
			t.Errorf("%q: got %+v, want the mistake as JSON", args, got)
		}
	}
	for _, args := range [][]string{
		{"status", "--wrong", "-o", "yaml"}, {"status", "--wrong", "--output", "yaml"},
		{"status", "-o", "yaml", "--wrong"},
	} {
		var m mistake
		got := perform(t, nil, args...)
		if err := yaml.Unmarshal([]byte(got.err), &m); err != nil || got.code != unknownStatus ||
			m.Error != "unknown flag: --wrong" {
			t.Errorf("%q: got %+v, want the mistake as YAML", args, got)
		}
	}
	if got := perform(t, nil, "status", "--wrong", "--", "-o", "json"); got.err !=
		"unknown flag: --wrong" {
		t.Errorf("after --: got %q, want text", got.err)
	}
}

// TestWideTables checks that only wide tables have all columns.
func TestWideTables(t *testing.T) {
	path, _ := retriedStore(t)
	narrow := commandOutput(t, "runs", "-c", path)
	wide := commandOutput(t, "runs", "-c", path, "-o", "wide")
	if strings.Contains(narrow, "web-1") || !strings.Contains(wide, "web-1") ||
		strings.Contains(wide, "~") || !strings.Contains(narrow, "succeeded") {
		t.Errorf("got %s and with -o wide %s, want the replica only there", narrow, wide)
	}
	list := commandOutput(t, "runs", "-c", path, "-o", "yaml")
	var runs []struct{ Job, State string }
	if err := yaml.Unmarshal([]byte(list), &runs); err != nil || len(runs) != 1 ||
		runs[0].State != "succeeded" {
		t.Errorf("got %s (%v), want one run as YAML", list, err)
	}
}

// TestCompletion asks for names as a shell does. Without a cluster there are none, and no error.
func TestCompletion(t *testing.T) {
	s := serve(t)
	perform(t, nil, "pause", "weekly", "-c", s.config)
	offered := func(args ...string) string {
		t.Helper()
		got := perform(t, nil, append([]string{"__complete"}, args...)...)
		names, _, _ := strings.Cut(got.out, ":")
		if got.code != 0 {
			t.Errorf("%q: %+v", args, got)
		}
		return strings.Join(strings.Fields(names), " ")
	}
	token := s.token(t, operatorToken)
	for _, by := range [][]string{{"-c", s.config}, {"--server", s.server, "--token-file", token}} {
		for args, want := range map[string]string{
			"trigger ": "nightly weekly", "trigger n": "nightly", "pause --group ": "reports",
			"runs --group ": "reports",
			"drain ":        "web-1", "undrain ": "", "remove ": "", "release ": "",
			"replicas remove ": "web-1",
			"logs ":            s.ended.String() + " nightly succeeded", "trigger nightly ": "",
			"runs --job w": "weekly", "jobs -o ": "table wide json yaml",
			"runs --state ":   strings.Join(stateNames(), " "),
			"audit --action ": strings.Join(admin.AuditActions(), " "),
		} {
			if got := offered(append(by, strings.Split(args, " ")...)...); got != want {
				t.Errorf("%s: got %q, want %q", args, got, want)
			}
		}
	}
	if got := offered("trigger", "-c", "/nothing", ""); got != "" {
		t.Errorf("without a configuration: %q", got)
	}
	if got := offered("trigger", "--server", "https://127.0.0.1:1", ""); got != "" {
		t.Errorf("without a server: %q", got)
	}
}

// TestReadmeListsCommands checks that the table in README.md has every command.
func TestReadmeListsCommands(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## Command line\n")
	table, _, ended := strings.Cut(table, "\n## ")
	if !found || !ended {
		t.Fatal("README.md has no section of the command line")
	}
	for _, cmd := range (&commandLine{}).rootCommand().Commands() {
		name := "`" + cmd.Name()
		if !strings.Contains(table, name+"`") && !strings.Contains(table, name+" ") {
			t.Errorf("README.md does not list the command %s", cmd.Name())
		}
	}
}
