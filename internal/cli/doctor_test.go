package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/doctor"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs"
)

// runDoctor writes a configuration, runs the command doctor and returns its output and exit code.
func runDoctor(t *testing.T, text string, args ...string) (string, int) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := Execute(t.Context(), append([]string{"doctor", "-c", config}, args...), &out, &out,
		app.Options{})
	var own *ExitError
	switch {
	case err == nil:
		return out.String(), 0
	case !errors.As(err, &own):
		t.Fatalf("error without an exit code: %v", err)
	case own.Err != nil:
		t.Errorf("error %v", err)
	}
	return out.String(), own.Code
}

// diagnose runs the command doctor with -o json and returns the checks that are not ok, as "result
// name".
func diagnose(t *testing.T, text string, wantCode int) (found []string) {
	t.Helper()
	out, code := runDoctor(t, text, "-o", "json")
	var d diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if code != wantCode || string(d.Result) != []string{"ok", "warning", "failed"}[code] {
		t.Errorf("exit code %d, result %s, want exit code %d: %s", code, d.Result, wantCode, out)
	}
	if strings.Contains(out, "hunter2") {
		t.Errorf("a secret is shown: %s", out)
	}
	for _, c := range d.Checks {
		if c.Result != doctor.OK {
			found = append(found, string(c.Result)+" "+c.Name)
		}
		if c.Detail == "" || (c.Advice == "") != (c.Result == doctor.OK) {
			t.Errorf("check %+v: the detail or the advice is wrong", c)
		}
	}
	return found
}

func expectChecks(t *testing.T, found []string, want ...string) {
	t.Helper()
	if got, want := strings.Join(found, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("not ok:\n%s\nwant\n%s", got, want)
	}
}

func TestDoctorOfAMistake(t *testing.T) {
	expectChecks(t, diagnose(t, "workers: none\njbos: []\n", 2), "failed configuration",
		"failed configuration")
	out, code := runDoctor(t, "workers: none\n")
	if code != 2 || !strings.Contains(out, "holdfast.yaml:1:10: workers:") ||
		!strings.Contains(out, "To do: correct the configuration") {
		t.Errorf("got exit code %d, %s, want 2 and the mistake with advice", code, out)
	}
}

// TestDoctorOfAHandlerForPostgres has a job whose handler does not work with SQLite.
func TestDoctorOfAHandlerForPostgres(t *testing.T) {
	work := jobs.Handle("work", func(context.Context, *jobs.Run, struct{}) error { return nil })
	config := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(config, []byte("database: {url: 'sqlite://"+
		filepath.ToSlash(filepath.Join(t.TempDir(), "h.db"))+
		"'}\njobs: [{name: a, handler: work}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := Execute(t.Context(), []string{"doctor", "-c", config}, &out, &out,
		app.Options{Handlers: []jobs.Registration{work.NeedsPostgres()}})
	var own *ExitError
	if !errors.As(err, &own) || own.Code != checkFailed ||
		!strings.Contains(out.String(), `handler "work" needs PostgreSQL`) {
		t.Errorf("got %v and %s, want exit code 2 and the handler", err, out.String())
	}
}

func TestDoctorOfSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	config := "database: {url: 'sqlite://" + path + "'}\n"
	expectChecks(t, diagnose(t, config, 1), "warning database")
	if _, err := os.Stat(path); err == nil {
		t.Fatal("the file was created")
	}
	migrate(t, config)
	expectChecks(t, diagnose(t, config, 0))
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		expectChecks(t, diagnose(t, config, 1), "warning file permissions")
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 100)),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	expectChecks(t, diagnose(t, config, 2), "failed database")
}

func migrate(t *testing.T, text string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Execute(t.Context(), []string{"migrate", "-c", config}, &out, &out,
		app.Options{}); err != nil {
		t.Fatal(err)
	}
}

// doctored is a database with two roles of its own, because roles belong to the server, which other
// packages use too.
type doctored struct {
	t                  *testing.T
	owner, store, jobs string // URLs
}

func newDoctored(t *testing.T) *doctored {
	t.Helper()
	if testing.Short() {
		t.Skip("needs PostgreSQL and memcached")
	}
	d := &doctored{t: t}
	d.execAt(server.URL("postgres"), "DROP ROLE IF EXISTS doctor_jobs, doctor_store; "+
		"CREATE ROLE doctor_store LOGIN; CREATE ROLE doctor_jobs LOGIN")
	t.Cleanup(func() { // after the database was dropped
		d.execAt(server.URL("postgres"), "DROP ROLE doctor_jobs, doctor_store")
	})
	d.owner = server.Database(t)
	for role, to := range map[string]*string{"doctor_store": &d.store, "doctor_jobs": &d.jobs} {
		u, err := url.Parse(d.owner)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "hunter2") // ignored by the server
		*to = u.String()
	}
	return d
}

// exec runs statements in the database.
func (d *doctored) exec(sql string) {
	d.t.Helper()
	d.execAt(d.owner, sql)
}

func (d *doctored) execAt(url, sql string) {
	d.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		d.t.Fatal(err)
	}
	_, err = conn.Exec(ctx, sql)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

func TestDoctorOfPostgres(t *testing.T) {
	d := newDoctored(t)
	owner := "database: {url: '" + d.owner + "'}\n"
	expectChecks(t, diagnose(t, owner, 1), "warning schema", "warning role", "warning role of jobs")
	if out, _ := runDoctor(t, owner); !strings.Contains(out, "not in this database") ||
		!strings.Contains(out, "To do: `scheduler run` migrates it") ||
		strings.Contains(out, "scheduler migrate") {
		t.Errorf("got\n%s\nwant that the command run migrates the schema, and no other advice", out)
	}
	expectChecks(t, diagnose(t, "database: {url: '"+d.owner+"', migrate: false}\n", 2),
		"failed schema", "warning role", "warning role of jobs")
	migrate(t, owner)
	d.exec("GRANT USAGE ON SCHEMA holdfast TO doctor_store, doctor_jobs; " +
		"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA holdfast TO doctor_store; " +
		"GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO doctor_jobs")
	both := "database: {url: '" + d.store + "', jobs_url: '" + d.jobs + "', migrate: false}\n"
	expectChecks(t, diagnose(t, both, 0))
	out, code := runDoctor(t, both)
	if code != 0 || !strings.HasPrefix(out, "RESULT  CHECK") ||
		!strings.Contains(out, `"doctor_jobs" cannot change the audit log`) {
		t.Errorf("got exit code %d, %s, want 0 and the role of jobs", code, out)
	}
	expectChecks(t, diagnose(t, "database: {url: '"+d.store+"', jobs_url: '"+d.store+"'}\n", 1),
		"warning role of jobs")
	for _, right := range []string{"UPDATE ON holdfast.audit", "UPDATE (actor) ON holdfast.audit",
		"DELETE ON holdfast.audit_links", "INSERT ON holdfast.audit_unsealed",
		"UPDATE (anchor_seq) ON holdfast.audit_chain"} {
		d.exec("GRANT " + right + " TO doctor_jobs")
		expectChecks(t, diagnose(t, both, 1), "warning role of jobs")
		d.exec("REVOKE " + right + " FROM doctor_jobs")
	}
	d.exec("ALTER ROLE doctor_jobs SET " +
		"statement_timeout = '30s'; ALTER ROLE doctor_jobs SET " +
		"idle_in_transaction_session_timeout = '5s'")
	expectChecks(t, diagnose(t, both, 1), "warning settings of jobs: statement_timeout",
		"warning settings of jobs: idle_in_transaction_session_timeout")
	other := server.Database(t)
	expectChecks(t, diagnose(t, "database: {url: '"+d.owner+"', jobs_url: '"+other+"'}\n", 2),
		"warning role", "failed role of jobs")
	d.exec("ALTER ROLE doctor_store SET default_transaction_read_only = on")
	expectChecks(t, diagnose(t, "database: {url: '"+d.store+"'}\n", 2), "failed database",
		"warning role of jobs")
}

func TestDoctorOfMemcached(t *testing.T) {
	d := newDoctored(t)
	config := func(address, more string) string {
		return "database: {url: '" + d.owner + "'}\nlocking: {memcached: {servers: ['" + address +
			"']" + more + "}}\n"
	}
	migrate(t, config("127.0.0.1:1", ""))
	roles := []string{"warning role", "warning role of jobs"}
	safe := servertest.NewMemcached(t, "-M", "-F", "-o", "no_slab_reassign", "-U", "0")
	expectChecks(t, diagnose(t, config(safe.Addr(), ", strict: true"), 1), roles...)
	unsafe := servertest.NewMemcached(t, "-F", "-o", "no_slab_reassign")
	expectChecks(t, diagnose(t, config(unsafe.Addr(), ""), 1),
		append(roles, "warning memcached "+unsafe.Addr())...)
	expectChecks(t, diagnose(t, config(unsafe.Addr(), ", strict: true"), 2),
		append(roles, "failed memcached "+unsafe.Addr())...)
	out, _ := runDoctor(t, config(unsafe.Addr(), ""))
	if !strings.Contains(out, "evictions is on, expected off") ||
		!strings.Contains(out, "To do: start it with -M") {
		t.Errorf("got %s, want the finding about evictions with advice", out)
	}
	if err := unsafe.Kill(); err != nil {
		t.Fatal(err)
	}
	expectChecks(t, diagnose(t, strings.Replace(config(unsafe.Addr(), ""), d.owner,
		"postgres://app:hunter2@127.0.0.1:1/none", 1), 2),
		"failed database", "failed memcached "+unsafe.Addr())
}

// TestDoctorOfDatabases checks databases of jobs that are down, without a fence, and complete.
func TestDoctorOfDatabases(t *testing.T) {
	if server == nil {
		t.Skip("needs PostgreSQL: run without -short")
	}
	url := server.Database(t)
	config := func(warehouse string) string {
		return "database: {url: 'sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "h.db")) +
			"'}\ndatabases: {warehouse: {" + warehouse + "}}\n"
	}
	const sqlite = "warning database"
	expectChecks(t, diagnose(t, config("url: 'postgres://u:hunter2@127.0.0.1:1/none'"), 2), sqlite,
		"failed database warehouse")
	expectChecks(t, diagnose(t, config("fence: none, url: '"+url+"'"), 1), sqlite,
		"warning database warehouse")
	expectChecks(t, diagnose(t, config("url: '"+url+"bogus'"), 2), sqlite,
		"failed database warehouse")
	out, _ := runDoctor(t, config("url: '"+strings.Replace(url, "?", "_missing?", 1)+"'"))
	if strings.Contains(out, "fence install") || !strings.Contains(out, "databases.warehouse.url") {
		t.Errorf("got %s, want advice about the URL of a database that does not exist", out)
	}
	out, _ = runDoctor(t, config("url: '"+url+"'"))
	if !strings.Contains(out, "scheduler fence install --database warehouse") {
		t.Errorf("got %s, want the command that creates the tables", out)
	}
	file := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(file, []byte(config("url: '"+url+"'")), 0o600); err != nil {
		t.Fatal(err)
	}
	var installed bytes.Buffer
	if err := Execute(t.Context(), []string{"fence", "install", "--database", "warehouse", "-c",
		file}, &installed, &installed, app.Options{}); err != nil {
		t.Fatal(err)
	}
	expectChecks(t, diagnose(t, config("url: '"+url+"'"), 1), sqlite)
}
