package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// operatorToken and viewerToken are tokens of a served cluster.
const (
	operatorToken = "operator-token"
	viewerToken   = "viewer-token"
)

// servedCluster is a replica that serves its API, with the configuration of its store.
type servedCluster struct {
	dir, config, server string
	ended               uuid.UUID // a run that succeeded in its second attempt
}

// serve runs a replica beside a store with one run. The operator's token has the name of the user
// of this process, so that both ways of asking have the same actor.
func serve(t *testing.T) servedCluster {
	t.Helper()
	path, ended := retriedStore(t)
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	account, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	sum := func(token string) string {
		hash := sha256.Sum256([]byte(token))
		return hex.EncodeToString(hash[:])
	}
	text := string(written) + fmt.Sprintf(`
  - {name: weekly, handler: command, schedule: "0 4 * * 1", group: reports, tables: [totals], params: {command: ["true"]}, overridable: [command]}
replica: {name: web-1}
admin:
  listen: "127.0.0.1:0"
  tokens:
    - {name: %q, role: operator, token_hash: %s}
    - {name: watcher, role: viewer, token_hash: %s}
`, account.Username, sum(operatorToken), sum(viewerToken))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := configs.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	quiet := zerolog.Nop()
	replica, err := app.New(config, app.Options{Log: &quiet, Page: admin.Page,
		Connection: app.Connection{Driver: sqlite.Driver},
		Load:       func() (*configs.Config, error) { return configs.Load(path) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- replica.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		registered := strings.Contains(commandOutput(t, "jobs", "-c", path), "weekly")
		if replica.Ready(t.Context()) == nil && registered {
			return servedCluster{filepath.Dir(path), path, "http://" + replica.AdminAddr(), ended}
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the replica is not ready")
		}
	}
}

// token returns a file with a token.
func (s servedCluster) token(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// outcome is what a command printed, its error and its exit code.
type outcome struct {
	out, err string
	code     int
	notes    string // on standard error, beside err
}

// perform runs a command line with an environment.
func perform(t *testing.T, env map[string]string, args ...string) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	c := &commandLine{out: &out, getenv: func(name string) string { return env[name] }}
	err := c.execute(t.Context(), args, &errOut)
	if err == nil {
		return outcome{out.String(), "", 0, errOut.String()}
	}
	o := outcome{out.String(), err.Error(), 1, errOut.String()}
	var own *ExitError
	if errors.As(err, &own) {
		o.code = own.Code
		if own.Formatted != "" {
			o.err = own.Formatted
		}
	}
	return o
}

var (
	anyID       = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	anyTime     = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z`)
	anyDuration = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(s|ms|µs)\b`)
	anySpace    = regexp.MustCompile(` +`)
	anyVersion  = regexp.MustCompile(`\b(added|version) \d+\b`) // of the job added
)

// normal returns an outcome without what differs between two calls: ids, times, durations and
// versions.
func (o outcome) normal() outcome {
	for _, text := range []*string{&o.out, &o.err} {
		*text = anyID.ReplaceAllString(*text, "ID")
		*text = anyTime.ReplaceAllString(*text, "TIME")
		*text = anyDuration.ReplaceAllString(*text, "DURATION")
		*text = anySpace.ReplaceAllString(*text, " ")
		*text = anyVersion.ReplaceAllString(*text, "$1 N")
	}
	return o
}

// sameAtServer runs each command with the database, and then each with the server, and compares
// outputs, errors and exit codes. It returns the number of commands that succeeded and failed.
func (s servedCluster) sameAtServer(t *testing.T, commands [][]string) (succeeded, failed int) {
	t.Helper()
	token := s.token(t, operatorToken)
	var direct, served []outcome
	for _, args := range commands {
		direct = append(direct, perform(t, nil, append(slices.Clip(args), "-c", s.config)...))
	}
	for _, args := range commands {
		served = append(served, perform(t, nil,
			append(slices.Clip(args), "--server", s.server, "--token-file", token)...))
	}
	for i, args := range commands {
		if direct[i].normal() != served[i].normal() {
			t.Errorf("%q differs:\n%+v\nat the server:\n%+v", args, direct[i], served[i])
		}
		if text := served[i].out + served[i].err; strings.Contains(text, operatorToken) {
			t.Errorf("%q shows the token: %s", args, text)
		}
		if direct[i].code == 0 {
			succeeded++
		} else {
			failed++
		}
	}
	return succeeded, failed
}

func TestQuestionsToAServer(t *testing.T) {
	s := serve(t)
	ended, unknown := s.ended.String(), uuid.NewString()
	succeeded, failed := s.sameAtServer(t, [][]string{
		{"jobs"}, {"jobs", "-o", "wide"}, {"jobs", "-o", "json"}, {"jobs", "-o", "yaml"},
		{"runs"}, {"runs", "-o", "json"}, {"runs", "--job", "nightly", "--state", "succeeded"},
		{"runs", "--replica", "web-1", "-n", "1"}, {"runs", "--state", "waiting,running"},
		{"runs", "--job", "night*", "-o", "json"}, {"runs", "--job", "week*", "-o", "json"},
		{"runs", "--group", "reports", "-o", "json"},
		{"runs", ended}, {"runs", ended, "-o", "json"}, {"runs", ended, "--attempt", "1"},
		{"runs", ended, "--attempt", "7"}, {"runs", unknown}, {"runs", "x"},
		{"runs", "--backfill", unknown}, {"runs", "--backfill", "x"},
		{"runs", "--state", "asleep"}, {"runs", "-n", "0"}, {"runs", "--job", "nightyl"},
		{"logs", ended}, {"logs", "-f", ended}, {"logs", unknown}, {"logs", ended, "-o", "json"},
		{"locks"}, {"locks", "-o", "json"}, {"replicas"}, {"replicas", "-o", "wide"},
		{"databases"}, {"databases", "-o", "json"},
		{"status"}, {"status", "-o", "json"}, {"status", "now"}, {"webhooks"}, {"pauses"},
		{"explain", "nightly", "2026-03-29T00:00:00Z"},
		{"explain", "nightly", "2026-03-29T00:00:00Z", "-o", "json"},
		{"backfills"}, {"backfills", unknown}, {"backfills", "x"}, {"backfills", "--state", "x"},
		{"backfill", "nightly", "--from", "2026-03-01T00:00:00Z", "--dry-run"},
		{"backfill", "nightly", "--from", "2026-03-01T00:00:00Z", "--dry-run", "-o", "json"},
		{"backfill", "nightyl", "--from", "2026-03-01T00:00:00Z", "--dry-run"},
		{"backfill", "nightly", "--from", "2026-03-01T00:00:00Z", "--parallel", "2", "--dry-run"},
		{"explain", "nightyl", "2026-03-29 02:30"}, {"explain", "nightly", "someday"},
	})
	if succeeded < 20 || failed < 10 {
		t.Errorf("%d commands succeeded and %d failed, want at least 20 and 10", succeeded, failed)
	}
}

// TestActionsAtAServer performs actions that undo each other, so that both ways begin in the same
// state.
func TestActionsAtAServer(t *testing.T) {
	s := serve(t)
	write := func(name, text string) string {
		path := filepath.Join(s.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const job = "handler: command\nparams: {command: [\"true\"]}\nschedule: '@yearly'\n"
	added := write("added.yaml", "name: added\n"+job)
	own := write("own.yaml", "name: nightly\n"+job)
	wrong := write("wrong.yaml", "name: wrong\nhandler: comand\ntabels: [x]\n")
	ended, unknown := s.ended.String(), uuid.NewString()
	succeeded, failed := s.sameAtServer(t, [][]string{
		{"pause", "weekly", "--reason", "night"}, {"pauses"}, {"pauses", "-o", "json"},
		{"trigger", "weekly"}, {"trigger", "weekly", "--even-paused", "--delay", "24h"},
		{"resume", "weekly", "-o", "json"}, {"resume", "weekly"},
		{"pause", "--group", "reports"}, {"resume", "--group", "reports"},
		{"pause", "--all", "-o", "yaml"}, {"resume", "--all"}, {"pause", "weekyl"}, {"pause"},
		{"trigger", "weekyl"}, {"trigger"}, {"trigger", "weekly", "--params", `{"comand": 1}`},
		{"trigger", "weekly", "--params", "[1]"}, {"trigger", "weekly", "--wait-for", "1ms"},
		{"trigger", "weekly", "--params", `{"command": ["true"]}`, "--wait"},
		{"trigger", "weekly", "--params", `{"command": ["false"]}`, "--wait"},
		{"cancel", ended}, {"cancel", unknown}, {"cancel", "x"},
		{"release", "public/totals"}, {"release", "public/totals", "--token", "7"},
		{"add", "-f", added}, {"add", "-f", added}, {"add", "-f", added, "--replace"},
		{"add", "-f", wrong}, {"add", "-f", wrong, "-o", "json"}, {"add", "-f", own},
		{"remove", "added"}, {"remove", "added"}, {"remove", "nightly"},
		{"webhooks", "again", unknown},
		{"backfill", "nightly", "--from", "2026-03-01T00:00:00Z", "--parallel", "2"},
		{"backfill", "weekyl", "--from", "2026-03-01T00:00:00Z"}, {"backfill", "weekly"},
		{"backfill", "weekly", "--from", "2026-03-02T00:00:00Z", "--to", "2026-03-01T00:00:00Z"},
		{"backfills", "cancel", unknown}, {"backfills", "cancel", "x"},
		{"drain", "web-1"}, {"undrain", "web-1"}, {"drain", "web-7"},
		{"replicas", "remove", "web-7"},
	})
	if succeeded < 15 || failed < 18 {
		t.Errorf("%d commands succeeded and %d failed, want at least 15 and 18", succeeded, failed)
	}
	s.sameAtServer(t, [][]string{{"audit"}, {"audit", "-o", "wide"},
		{"audit", "--action", "pause", "-n", "2", "-o", "json"}, {"audit", "export"},
		{"audit", "export", "--since", "2100-01-01T00:00:00Z"}})
	for _, c := range []*commandLine{{configPath: s.config, getenv: noEnvironment},
		{serverFlags: serverFlags{server: s.server, tokenFile: s.token(t, operatorToken)},
			getenv: noEnvironment}} {
		var pages, whole bytes.Buffer
		if err := c.withCluster(t.Context(), func(in cluster) error {
			since := time.Now().Add(-time.Hour)
			return errors.Join(in.ExportAudit(t.Context(),
				storage.AuditFilter{Limit: 3, Since: since}, writeAudit(&pages)),
				in.ExportAudit(t.Context(), storage.AuditFilter{Limit: storage.MaxBatch},
					writeAudit(&whole)))
		}); err != nil || pages.String() != whole.String() || pages.Len() == 0 {
			t.Errorf("in pages: %v, %s\nas a whole:\n%s", err, &pages, &whole)
		}
	}
	lines := perform(t, nil, "audit", "--action", "pause", "-o", "wide", "-c", s.config).out
	if strings.Count(lines, " cli ") != 3 || strings.Count(lines, " api ") != 3 ||
		strings.Count(lines, " token ") != 3 {
		t.Errorf("got %s, want 3 pauses of each way, and the token as proof", lines)
	}
}

func noEnvironment(string) string { return "" }

func TestServerRefusals(t *testing.T) {
	s := serve(t)
	operator, viewer := s.token(t, operatorToken), s.token(t, viewerToken)
	wrong := s.token(t, "wrong-token")
	for _, test := range []struct {
		args []string
		env  map[string]string
		code int
		want string
	}{
		{args: []string{"pause", "--all", "--token-file", viewer}, code: 1,
			want: "permission pause"},
		{args: []string{"jobs", "--token-file", wrong}, code: 1, want: "refused the token: "},
		{args: []string{"jobs"}, code: 1, want: "needs a token: use --token-file or HOLDFAST_TOKEN"},
		{args: []string{"status", "--token-file", wrong}, code: 3, want: "refused the token: "},
		{args: []string{"jobs"}, env: map[string]string{tokenVariable: operatorToken}},
		{args: []string{"jobs"}, env: map[string]string{tokenVariable: "a b"}, code: 1,
			want: "HOLDFAST_TOKEN: expected one line"},
		{args: []string{"jobs", "--token-file", "/nothing"}, code: 1, want: "--token-file: "},
		{args: []string{"migrate", "--token-file", operator}, code: 1,
			want: `--server: the command "scheduler migrate" does not ask a server`},
		{args: []string{"audit", "verify", "--token-file", operator}, code: 2,
			want: `--server: the command "scheduler audit verify" does not ask a server`},
		{args: []string{"jobs", "-c", s.config}, code: 1,
			want: "expected --config or --server, found both"},
	} {
		got := perform(t, test.env, append(test.args, "--server", s.server)...)
		if got.code != test.code || !strings.Contains(got.err, test.want) ||
			strings.Contains(got.err+got.out, "-token\n") {
			t.Errorf("%q: got %+v, want exit code %d and %q", test.args, got, test.code, test.want)
		}
	}
	env := map[string]string{serverVariable: s.server, tokenVariable: operatorToken}
	if got := perform(t, env, "jobs"); got.code != 0 || !strings.Contains(got.out, "weekly") {
		t.Errorf("with the environment: %+v", got)
	}
	if got := perform(t, env, "next", "--schedule", "@daily"); got.code != 0 {
		t.Errorf("a command that asks no server, with the environment: %+v", got)
	}
	env[serverVariable] = "https://127.0.0.1:1"
	if got := perform(t, env, "jobs", "-c", s.config); got.code != 0 {
		t.Errorf("--config beside the environment: %+v", got)
	}
	if got := perform(t, env, "status"); got.code != unknownStatus ||
		!strings.Contains(got.err, "ask https://127.0.0.1:1: ") {
		t.Errorf("status of a server that does not answer: %+v", got)
	}
	for server, want := range map[string]string{"": "expected a URL", "x": "expected an address",
		"http://scheduler.example": "expected https, or --plain-http"} {
		token := map[string]string{tokenVariable: operatorToken}
		got := perform(t, token, "jobs", "--server", server)
		if got.code != 1 || !strings.Contains(got.err, want) {
			t.Errorf("--server %q: %+v, want %q", server, got, want)
		}
	}
	if got := perform(t, nil, "jobs", "-c", s.config, "--token-file", operator); got.code != 1 ||
		!strings.Contains(got.err, "expected --server too") {
		t.Errorf("a token without a server: %+v", got)
	}
}
