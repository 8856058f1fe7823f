package attacks

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/password"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// reportFile names the variable with the file that gets the lines of the attacks.
const reportFile = "HOLDFAST_ATTACKS_REPORT"

// The people and clients of a guarded target.
const (
	passphrase    = "correct horse battery staple" // of anna and vera
	operatorToken = "operator-token-operator-token"
	viewerToken   = "viewer-token-viewer-token"
	secret        = "hunter2-hunter2-hunter2" // no answer, log or message may have it
)

// allowed is how long a request may take beside an attack. A blocked replica took 30 s. Requests
// beside 560 sign-ins took at most 1.1 s on an idle machine, and 5 s beside the rest of a soak.
const allowed = 10 * time.Second

// pollEvery is the interval of requests that wait for a state.
const pollEvery = 50 * time.Millisecond

// attack is one row of the table.
type attack struct {
	*testing.T
	row int
}

// begin skips the attack unless this is a soak.
func begin(t *testing.T, row int) *attack {
	t.Helper()
	soak.Only(t)
	return &attack{t, row}
}

// report writes a line about the attack.
func (a *attack) report(format string, args ...any) {
	a.Helper()
	result := ""
	if a.Failed() {
		result = "FAILED: "
	}
	line := fmt.Sprintf("row %d: %s", a.row, result+fmt.Sprintf(format, args...))
	a.Log(line)
	name := os.Getenv(reportFile)
	if name == "" {
		return
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(file, line)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		a.Error(err)
	}
}

// plan describes a target.
type plan struct {
	name     string // default: target
	database string // keys of database; default: a SQLite file of its own
	admin    string // keys of admin, in flow style, without listen
	more     string // further keys
	jobs     string // the list of jobs
	env      []string
	secure   bool     // admin has tls
	wrap     []string // a program that runs the replica
	// unprivileged runs the replica as the user nobody.
	unprivileged bool
}

// target is a replica that is attacked.
type target struct {
	*attack
	*replicas.Process
	config string // path
}

// guarded are the keys of admin with two users and two tokens.
func (a *attack) guarded() string {
	return fmt.Sprintf("users: [{name: anna, role: operator, password_hash: '%s'}, {name: vera, "+
		"password_hash: '%s'}], tokens: [{name: deploy, role: operator, token_hash: %s}, "+
		"{name: reader, token_hash: %s}], hosts: [scheduler.example.com], "+
		"cookie_keys: [{key: 0123456789abcdef0123456789abcdef}]",
		a.hash(), a.hash(), accesstest.Sum(operatorToken), accesstest.Sum(viewerToken))
}

// hash returns the hash of the passphrase that users of the command hash-password get.
func (a *attack) hash() string {
	a.Helper()
	hash, err := password.New(passphrase)
	if err != nil {
		a.Fatal(err)
	}
	return hash
}

// tlsKeys returns the keys of admin for TLS with a new certificate.
func (a *attack) tlsKeys() string {
	files := accesstest.NewPairFiles(a.T, accesstest.NewPair(a.T, 1))
	return fmt.Sprintf("tls: {cert_file: %s, key_file: %s}", files.CertFile, files.KeyFile)
}

// text returns the configuration.
func (p plan) text(dir string) string {
	database := p.database
	if database == "" {
		database = "url: 'sqlite://" + filepath.Join(dir, "holdfast.db") + "'"
	}
	admin := "listen: '${LISTEN}'"
	if p.admin != "" {
		admin += ", " + p.admin
	}
	jobs := "jobs: []"
	if p.jobs != "" {
		jobs = "jobs:\n" + p.jobs
	}
	return fmt.Sprintf("database: {%s}\nreplica: {name: '${REPLICA}'}\nsession: {heartbeat: 1s, "+
		"expires: 10s}\nadmin: {%s}\n%s\n%s\n", database, admin, p.more, jobs)
}

// start starts a replica and waits until it can start runs.
func (a *attack) start(p plan) *target {
	a.Helper()
	if p.name == "" {
		p.name = "target"
	}
	program, err := os.Executable()
	if err != nil {
		a.Fatal(err)
	}
	dir := a.TempDir()
	spec := replicas.Spec{Program: program, Name: p.name, Dir: dir, Config: p.text(dir),
		Env: append(p.env, asProgram+"=1", "HOLDFAST_SOAK=")}
	if len(p.wrap) > 0 {
		spec.Program = p.wrap[0]
		spec.Args = append(slices.Clone(p.wrap[1:]), program, "run")
	}
	config := filepath.Join(dir, p.name+".yaml")
	if p.unprivileged {
		a.giveUpRoot(&spec, p)
		config = spec.Args[len(spec.Args)-1]
	}
	// The replica outlives the context of the test, which ends before its cleanups.
	process, err := replicas.Start(context.Background(), spec)
	if err != nil {
		a.Fatal(err)
	}
	if p.secure {
		process.URL = strings.Replace(process.URL, "http://", "https://", 1)
	}
	g := &target{a, process, config}
	a.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := process.Stop(ctx); err != nil {
			a.Errorf("%v\n%s", err, process.Tail(3000))
		}
		if log := process.Log(); strings.Contains(log, "DATA RACE") ||
			strings.Contains(log, "panic: ") {
			a.Errorf("the log of %s:\n%s", p.name, process.Tail(5000))
		}
	})
	g.await("ready", time.Minute, func() bool {
		reply, err := g.try(request{path: "/readyz"})
		return err == nil && reply.status == http.StatusOK
	})
	return g
}

// giveUpRoot has setpriv run a copy of the program as the user nobody, with files of its own.
func (a *attack) giveUpRoot(spec *replicas.Spec, p plan) {
	a.Helper()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		a.Skip(err)
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "nobody-")
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			a.Error(err)
		}
	})
	content, err := os.ReadFile(spec.Program)
	if err != nil {
		a.Fatal(err)
	}
	program, config := filepath.Join(dir, "program"), filepath.Join(dir, p.name+".yaml")
	if err := errors.Join(os.WriteFile(program, content, 0o755),
		os.WriteFile(config, []byte(p.text(dir)), 0o644), os.Chmod(program, 0o755),
		os.Chown(dir, nobody, nobody), os.Chown(config, nobody, nobody)); err != nil {
		a.Fatal(err)
	}
	spec.Program, spec.Config = setpriv, ""
	spec.Args = []string{fmt.Sprintf("--reuid=%d", nobody), fmt.Sprintf("--regid=%d", nobody),
		"--clear-groups", program, "run", "-c", config}
}

// await asks until done returns true.
func (g *target) await(what string, limit time.Duration, done func() bool) {
	g.attack.Helper()
	for start := time.Now(); !done(); {
		if time.Since(start) > limit {
			g.Fatalf("%s: not within %s\n%s", what, limit, g.Tail(3000))
		}
		time.Sleep(pollEvery)
	}
}

// request is what a client sends.
type request struct {
	method, path string // default GET
	token        string // bearer
	cookies      []*http.Cookie
	host         string // default: that of the address
	header       map[string]string
	json         string // body of an action
	form         url.Values
	from         string // the address of the client; default: any
	client       *http.Client
	limit        time.Duration // default a minute
}

// reply is an answer.
type reply struct {
	status  int
	header  http.Header
	body    string
	cookies []*http.Cookie
	took    time.Duration
}

// try sends a request on a connection of its own, and follows no redirect.
func (g *target) try(q request) (reply, error) {
	limit := q.limit
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var body io.Reader
	method := q.method
	switch {
	case q.form != nil:
		body, method = strings.NewReader(q.form.Encode()), http.MethodPost
	case q.json != "":
		body, method = strings.NewReader(q.json), http.MethodPost
	case method == "":
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, g.URL+q.path, body)
	if err != nil {
		return reply{}, err
	}
	if q.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if q.host != "" {
		r.Host = q.host
	}
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	for _, c := range q.cookies {
		r.AddCookie(c)
	}
	client := q.client
	if client == nil {
		client = clientFrom(q.from)
	}
	begun := time.Now()
	response, err := client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(text), response.Cookies(),
		time.Since(begun)}, err
}

// ask is try for a request that must be answered.
func (g *target) ask(q request) reply {
	g.attack.Helper()
	answer, err := g.try(q)
	if err != nil {
		g.Fatalf("%s %s: %v\n%s", q.method, q.path, err, g.Tail(2000))
	}
	return answer
}

// expect is ask with an expected status.
func (g *target) expect(status int, q request) reply {
	g.attack.Helper()
	answer := g.ask(q)
	if answer.status != status {
		g.Errorf("%s %s: found %d, expected %d: %.500s", q.method, q.path, answer.status, status,
			answer.body)
	}
	return answer
}

// clientFrom returns a client of an address of loopback, or of any if it is "". It accepts every
// certificate, because the target is the one that is attacked.
func clientFrom(address string) *http.Client {
	dialer := &net.Dialer{Timeout: allowed}
	if address != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(address)}
	}
	return &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// signIn posts the form of the sign-in.
func (g *target) signIn(name, password, from string, cookies ...*http.Cookie) reply {
	g.attack.Helper()
	return g.ask(request{path: "/login", from: from, cookies: cookies,
		form: url.Values{"user": {name}, "password": {password}}})
}

// trigger adds a run of a job and returns its record when it has ended.
func (g *target) trigger(job string, q request) storage.Record {
	g.attack.Helper()
	q.path = "/api/v1/jobs/" + url.PathEscape(job) + "/trigger"
	if q.json == "" {
		q.json = "{}"
	}
	if q.header == nil {
		q.header = map[string]string{"X-Holdfast-Action": "1"}
	}
	run := decode[storage.Record](g.attack, g.expect(http.StatusOK, q).body)
	return g.ended(run.ID.String(), q.token)
}

// ended waits for the end of a run.
func (g *target) ended(id, token string) (run storage.Record) {
	g.attack.Helper()
	g.await("end of run "+id, time.Minute, func() bool {
		answer := g.expect(http.StatusOK, request{path: "/api/v1/runs/" + id, token: token})
		run = decode[storage.Record](g.attack, answer.body)
		return run.State.Final()
	})
	return run
}

func decode[T any](a *attack, text string) (value T) {
	a.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		a.Fatalf("%v: %.500s", err, text)
	}
	return value
}

// reload makes the replica read its configuration again, with the text old replaced by new.
func (g *target) reload(old, new string) {
	g.attack.Helper()
	text, err := os.ReadFile(g.config)
	if err != nil {
		g.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		g.Fatalf("%q is not in the configuration", old)
	}
	if err := os.WriteFile(g.config, []byte(strings.ReplaceAll(string(text), old, new)),
		0o600); err != nil {
		g.Fatal(err)
	}
	reloads := strings.Count(g.Log(), "configuration reloaded")
	if err := g.Signal(syscall.SIGHUP); err != nil {
		g.Fatal(err)
	}
	g.await("reload", time.Minute, func() bool {
		return strings.Count(g.Log(), "configuration reloaded") > reloads
	})
}

// command runs a command of the stock program with the target's configuration, and returns its
// output and exit code.
func (g *target) command(args ...string) (string, int) {
	g.attack.Helper()
	return g.attack.command(append(args, "-c", g.config)...)
}

func (a *attack) command(args ...string) (string, int) {
	a.Helper()
	program, err := os.Executable()
	if err != nil {
		a.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "LISTEN=127.0.0.1:0", "REPLICA=command")
	output, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		a.Fatal(err)
	}
	return string(output), cmd.ProcessState.ExitCode()
}

// hides fails if a text has the secret.
func (a *attack) hides(what, text string) {
	a.Helper()
	if i := strings.Index(text, secret); i >= 0 {
		a.Errorf("%s has the secret: %.300s", what, text[max(0, i-150):])
	}
}
