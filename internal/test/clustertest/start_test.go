package clustertest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// Each case lacks something that a replica needs. The replica exits with code 1 and writes one line
// that names the problem.
func TestStartErrors(t *testing.T) {
	preparedServer(t)
	for _, refused := range []struct {
		name   string
		config func(t *testing.T, dir string) (config string, wants []string)
	}{
		{"the database does not exist", databaseAbsent},
		{"the schema refuses this binary", schemaTooNew},
		{"no schema, and migration is off", schemaAbsent},
		{"memcached with SQLite", memcachedWithSQLite},
		{"memcached with unsafe settings, and strict", memcachedUnsafe},
		{"memcached with another password, and strict", memcachedClosed},
		{"the port is in use", portTaken},
		{"the SQLite file is in use", fileInUse},
		{"the folder of the SQLite file does not exist", folderAbsent},
	} {
		t.Run(refused.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config, wants := refused.config(t, dir)
			writeFile(t, filepath.Join(dir, "refused.yaml"), config)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := call(ctx, t, dir, "run", "-c", "refused.yaml")
			if s.code != 1 || s.out != "" {
				t.Errorf("exit code %d and output %q, want 1 and none", s.code, s.out)
			}
			line := s.line(t)
			for _, want := range append(wants, "scheduler: ") {
				if !strings.Contains(line, want) {
					t.Errorf("got log line %q, want %q in it", line, want)
				}
			}
			if strings.Contains(line, password) {
				t.Errorf("got log line %q, which contains the password", line)
			}
		})
	}
}

// TestStartWaitsForPostgreSQL stops a replica that waits for a database which does not answer.
func TestStartWaitsForPostgreSQL(t *testing.T) {
	preparedServer(t)
	for name, config := range map[string]func(*testing.T, string) (string, []string){
		"unreachable": postgresAbsent, "silent": postgresSilent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			text, wants := config(t, dir)
			writeFile(t, filepath.Join(dir, "waits.yaml"), text)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, stockProgram(t), "run", "-c", "waits.yaml")
			cmd.Dir = dir
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines, line := bufio.NewScanner(stderr), ""
			for lines.Scan() {
				if line = lines.Text(); strings.Contains(line, "the replica waits for it") {
					break
				}
			}
			for _, want := range append(wants, `"again_in":`) {
				if !strings.Contains(line, want) || strings.Contains(line, password) {
					t.Errorf("got log line %q, want %q in it and no password", line, want)
				}
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			for lines.Scan() { // until it has ended
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("got %v after SIGTERM, want exit code 0", err)
			}
		})
	}
}

const password = "open-sesame"

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// listen returns a listener on loopback that never accepts.
func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	return listener
}

func onPostgres(url string) string {
	return fmt.Sprintf("database: {url: %q}\nadmin: {listen: \"127.0.0.1:0\"}\n", url)
}

func postgresAbsent(t *testing.T, _ string) (string, []string) {
	address, err := servertest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return onPostgres("postgres://somebody:" + password + "@" + address + "/holdfast"),
		[]string{address, "connection refused"}
}

func postgresSilent(t *testing.T, _ string) (string, []string) {
	address := listen(t).Addr().String()
	return onPostgres("postgres://somebody:" + password + "@" + address +
		"/holdfast?sslmode=disable&connect_timeout=1"), []string{address, "timeout"}
}

func databaseAbsent(*testing.T, string) (string, []string) {
	url := server.URL("nowhere")
	// a shared server adds a prefix
	database := strings.TrimSuffix(path.Base(url), "?sslmode=disable")
	return onPostgres(url), []string{fmt.Sprintf("database %q does not exist", database)}
}

func schemaTooNew(t *testing.T, _ string) (string, []string) {
	url := server.Clone(t, template)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(),
		`UPDATE holdfast.meta SET version = 1001, min_binary = 1000`); err != nil {
		t.Error(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return onPostgres(url), []string{"requires version 1000",
		"upgrade the binary"}
}

func schemaAbsent(t *testing.T, _ string) (string, []string) {
	return fmt.Sprintf("database: {url: %q, migrate: false}\n",
		server.Database(t)), []string{"not in this database", "run `scheduler migrate` first"}
}

func memcachedWithSQLite(*testing.T, string) (string, []string) {
	return "database: {url: sqlite://x.db}\nlocking:\n  memcached: {servers: " +
			"[\"127.0.0.1:11211\"]}\n",
		[]string{"refused.yaml:3:3: locking.memcached",
			"found memcached with a sqlite:// database, expected postgres://"}
}

func onMemcached(t *testing.T, address, more string) string {
	const text = `
database: {url: %q}
locking: {memcached: {servers: [%q], timeout: 3s, strict: true%s}}
admin: {listen: "127.0.0.1:0"}
log: {level: error} # what is unsafe is told in the log too
`
	return fmt.Sprintf(text, server.Clone(t, template), address, more)
}

func memcachedUnsafe(t *testing.T, _ string) (string, []string) {
	m := servertest.NewMemcached(t, "-M")
	return onMemcached(t, m.Addr(),
			""), []string{"locking.memcached.strict: not safe for locks: memcached " + m.Addr() +
			": flush_enabled is yes, expected no: start it with -F; slab_reassign is yes, " +
			"expected no: start it with -o no_slab_reassign"}
}

func memcachedClosed(t *testing.T, _ string) (string, []string) {
	users := servertest.PublicFile(t, "users", []byte("holdfast:another\n"))
	m := servertest.NewGuardedMemcached(t, servertest.Guard{User: "holdfast", Password: "another"},
		"-Y", users)
	return onMemcached(t, m.Addr(), ", username: holdfast, password: "+password),
		[]string{"locking.memcached.strict: not safe for locks: memcached " + m.Addr() +
			": it does not take the configured user and password (-Y)"}
}

func portTaken(t *testing.T, _ string) (string, []string) {
	address := listen(t).Addr().String()
	return fmt.Sprintf("database: {url: %q}\nadmin: {listen: %q}\n", server.Clone(t, template),
			address),
		[]string{"admin page", address, "address already in use"}
}

func fileInUse(t *testing.T, dir string) (string, []string) {
	config := "database: {url: \"sqlite://" + filepath.Join(dir, "used.db") +
		"\"}\nadmin: {listen: \"${LISTEN:-127.0.0.1:0}\"}\n"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	first, err := replicas.Start(ctx,
		replicas.Spec{Program: stockProgram(t), Name: "first", Config: config, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := first.Kill(); err != nil {
			t.Error(err)
		}
	})
	if err := first.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return config, []string{"database file " + filepath.Join(dir, "used.db"),
		"in use by another replica"}
}

func folderAbsent(_ *testing.T, dir string) (string, []string) {
	return "database: {url: \"sqlite://" + filepath.Join(dir, "not", "there.db") +
		"\"}\n", []string{"there.db", "no such file or directory"}
}

// Without memcached a replica starts, logs one line about it, and lets PostgreSQL alone decide.
func TestStartWithoutReachableMemcached(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{stock: true, jobs: `
  - {name: insert, schedule: {every: 1s}, handler: sql, tables: [ledger], params: {statement: SELECT 1}}
`})
	if err := c.memcached.Kill(); err != nil {
		t.Fatal(err)
	}
	c.start("a")
	c.awaitRuns(2, "job = 'insert' AND state = 'succeeded'")
	const want = "memcached can't be reached, going on without it until it can"
	if n := strings.Count(c.replicas["a"].Log(), want); n != 1 {
		t.Errorf("got %d log lines %q, want 1", n, want)
	}
	c.audit()
}
