package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Pgbouncer is a running pgbouncer in transaction mode, with the settings in docs/deployment.md.
type Pgbouncer struct {
	server     string // host:port of PostgreSQL
	dir        string
	port       int
	credential *syscall.Credential
	process    *process
}

// pgbouncerConfig forwards each database to the server's one of the same name. Its clients are
// trusted, as those of the server are.
const pgbouncerConfig = `[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = %s
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 30
max_client_conn = 1000
ignore_startup_parameters = default_transaction_isolation,statement_timeout,jit
`

// NewPgbouncer runs pgbouncer in front of the server until the test ends.
func NewPgbouncer(t testing.TB, of *Postgres) *Pgbouncer {
	t.Helper()
	program, err := FindBinary("pgbouncer", "pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	b := &Pgbouncer{server: of.Addr()}
	// pgbouncer refuses to run as root.
	if b.credential, err = account("postgres"); err != nil {
		t.Fatal(err)
	}
	if b.dir, err = os.MkdirTemp("", "pgbouncer-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("pgbouncer's log:\n%s", lastOutput(b.logPath()))
		}
		if b.process != nil {
			err = b.process.end(syscall.SIGTERM, stopGrace)
		}
		if err := errors.Join(err, os.RemoveAll(b.dir)); err != nil {
			t.Error(err)
		}
	})
	for range startTries {
		if err = b.start(t.Context(), program); err == nil || t.Context().Err() != nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// URL returns the URL of a database of the server, through pgbouncer. Releases before 1.21 lose
// prepared statements, so the client uses none.
func (b *Pgbouncer) URL(direct string) string {
	return strings.Replace(direct, b.server, address(b.port), 1) +
		"&default_query_exec_mode=cache_describe"
}

func (b *Pgbouncer) logPath() string { return filepath.Join(b.dir, "log") }

func (b *Pgbouncer) start(ctx context.Context, program string) (err error) {
	if b.port, err = freePort(); err != nil {
		return err
	}
	config, users := filepath.Join(b.dir, "pgbouncer.ini"), filepath.Join(b.dir, "users")
	host, port, err := net.SplitHostPort(b.server)
	if err != nil {
		return fmt.Errorf("address of PostgreSQL: %w", err)
	}
	if err := errors.Join(
		os.Chmod(b.dir, 0o755), // for the user of the process
		os.WriteFile(users, []byte("\"postgres\" \"\"\n"), 0o644),
		os.WriteFile(config, fmt.Appendf(nil, pgbouncerConfig, host, port, loopback, b.port, users),
			0o644)); err != nil {
		return fmt.Errorf("configuration of pgbouncer: %w", err)
	}
	logFile, err := os.OpenFile(b.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("log of pgbouncer: %w", err)
	}
	defer logFile.Close()
	p, err := startProcess(b.credential, syscall.SIGKILL, b.dir, logFile, program, config)
	if err != nil {
		return err
	}
	err = p.waitReady(ctx, "pgbouncer", b.logPath(), func(ctx context.Context) bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(b.port))
		return err == nil && conn.Close() == nil
	})
	if err != nil {
		return errors.Join(err, p.end(syscall.SIGKILL, stopGrace))
	}
	b.process = p
	return nil
}
