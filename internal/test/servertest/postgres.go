package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

const maxSocketPath = 100 // the kernel's limit is 107 bytes for folder, name and port

// Postgres is a running PostgreSQL server. Its methods may be called
// concurrently.
type Postgres struct {
	bin        string // the folder of the server's programs
	dir        string // holds data, socket and log
	ownsDir    bool
	settings   []string
	credential *syscall.Credential
	databases  atomic.Int64
	shared     bool   // another process runs it
	prefix     string // of the names of databases
	// connections to the database postgres; nil if the server is not shared, because a test may end
	// such a server
	idle chan *pgconn.PgConn

	mu      sync.Mutex
	port    int
	process *process
}

// StartPostgres creates a cluster in dir and returns once the server accepts connections on a free
// loopback port. dir must be empty. If it is "", the server uses a temporary folder that Stop
// removes. The server trusts all users, allows 200 connections and never waits for the disk.
// Settings such as "fsync=on" or "max_connections=20" override these.
func StartPostgres(ctx context.Context, dir string, settings ...string) (*Postgres, error) {
	p, err := newPostgres(dir, settings)
	if err != nil {
		return nil, err
	}
	if p.ownsDir = dir == ""; p.ownsDir {
		if p.dir, err = os.MkdirTemp("", "postgres-"); err != nil {
			return nil, fmt.Errorf("folder for PostgreSQL: %w", err)
		}
	}
	if err := p.create(ctx); err != nil {
		return nil, errors.Join(err, p.removeDir())
	}
	return p, nil
}

// newPostgres returns a server without files that does not run yet.
func newPostgres(dir string, settings []string) (*Postgres, error) {
	initdb, err := FindBinary("initdb", "postgresql")
	if err != nil {
		return nil, err
	}
	if initdb, err = filepath.EvalSymlinks(initdb); err != nil {
		// its other files are in its real folder
		return nil, fmt.Errorf("folder of PostgreSQL's programs: %w", err)
	}
	p := &Postgres{bin: filepath.Dir(initdb), dir: dir, settings: settings}
	if p.credential, err = account("postgres"); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Postgres) create(ctx context.Context) error {
	if err := p.prepareDir(); err != nil {
		return err
	}
	if err := p.initdb(ctx); err != nil {
		return err
	}
	return p.startSomewhere(ctx)
}

// startSomewhere starts the server on a free port.
func (p *Postgres) startSomewhere(ctx context.Context) error {
	var err error
	for range startTries {
		if p.port, err = freePort(); err != nil {
			return err
		}
		if err = p.start(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// prepareDir gives the folder to the server's user, who must be able to reach it.
func (p *Postgres) prepareDir() error {
	absolute, err := filepath.Abs(p.dir)
	if err != nil {
		return fmt.Errorf("folder for PostgreSQL: %w", err)
	}
	p.dir = absolute
	if p.credential == nil {
		return nil
	}
	if err := os.Chown(p.dir, int(p.credential.Uid), int(p.credential.Gid)); err != nil {
		return fmt.Errorf("folder for PostgreSQL: %w", err)
	}
	for parent := filepath.Dir(p.dir); parent != "/"; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return fmt.Errorf("folder for PostgreSQL: %w", err)
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("folder for PostgreSQL: the user postgres can't enter %s (mode "+
				"%v); set TMPDIR to a folder that it can reach", parent, info.Mode().Perm())
		}
	}
	return nil
}

// initdb creates the data folder, or copies the one that the environment names.
func (p *Postgres) initdb(ctx context.Context) error {
	if pristine := os.Getenv(pristineVariable); pristine != "" {
		return p.command(ctx, p.credential, "cp", "-Rp", pristine, p.dataDir())
	}
	return p.command(ctx, p.credential, filepath.Join(p.bin, "initdb"), "-D", p.dataDir(),
		"-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
		"--wal-segsize=1") // MB: a small file is fast to write and to copy
}

// command runs a program in the server's folder and waits for its end.
func (p *Postgres) command(
	ctx context.Context, as *syscall.Credential, program string, args ...string,
) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	DieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, bytes.TrimSpace(output))
	}
	return nil
}

func (p *Postgres) dataDir() string { return filepath.Join(p.dir, "data") }

// LogPath returns the file that the server logs to.
func (p *Postgres) LogPath() string { return filepath.Join(p.dir, "log") }

// Addr returns host:port; a restart does not change it.
func (p *Postgres) Addr() string { return address(p.port) }

// URL returns the address of a database, for the superuser.
func (p *Postgres) URL(database string) string {
	return "postgres://postgres@" + p.Addr() + "/" + p.databaseName(database) + "?sslmode=disable"
}

func (p *Postgres) start(ctx context.Context) error {
	logFile, err := os.OpenFile(p.LogPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("log of PostgreSQL: %w", err)
	}
	defer logFile.Close()
	args := []string{"-D", p.dataDir(), "-p", strconv.Itoa(p.port)}
	for _, setting := range append(p.defaults(), p.settings...) {
		args = append(args, "-c", setting)
	}
	process, err := startProcess(p.credential, syscall.SIGQUIT, p.dir, logFile,
		filepath.Join(p.bin, "postgres"), args...)
	if err != nil {
		return err
	}
	// The server's own pid file contains the state that pg_ctl reads too.
	err = process.waitReady(ctx, "PostgreSQL", p.LogPath(), func(context.Context) bool {
		return p.saysReady(process.pid())
	})
	if err != nil {
		return errors.Join(err, process.end(syscall.SIGQUIT, stopGrace))
	}
	p.process = process
	return nil
}

func (p *Postgres) defaults() []string {
	sockets := p.dir
	if len(sockets) > maxSocketPath-len("/.s.PGSQL.12345") {
		sockets = ""
	}
	return []string{
		"listen_addresses=" + loopback, "unix_socket_directories=" + sockets,
		"max_connections=200", "fsync=off", "full_page_writes=off", "shared_buffers=32MB",
	}
}

func (p *Postgres) saysReady(pid int) bool {
	text, err := os.ReadFile(filepath.Join(p.dataDir(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) <= 7 || lines[0] != strconv.Itoa(pid) {
		return false
	}
	state := strings.TrimSpace(lines[7])
	return state == "ready" || state == "standby"
}

// Stop ends the server with all its connections. It removes a temporary folder. It may be called
// more than once. It does not stop a shared server.
func (p *Postgres) Stop() error {
	if p.shared {
		return p.closeIdle()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.end(syscall.SIGINT), p.removeDir())
}

// Kill ends the server at once and without a checkpoint, like a crash. After Start, committed data
// is there again.
func (p *Postgres) Kill() error {
	if p.shared {
		return errShared
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end(syscall.SIGQUIT)
}

// Start starts the server again after a Kill, on the same port.
func (p *Postgres) Start(ctx context.Context) error {
	if p.shared {
		return errShared
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process.running() {
		return nil
	}
	return p.start(ctx)
}

// Restart shuts the server down with all its connections, and starts it again on the same port.
func (p *Postgres) Restart(ctx context.Context) error {
	if p.shared {
		return errShared
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.end(syscall.SIGINT); err != nil {
		return err
	}
	return p.start(ctx)
}

// Pause stops all processes of the server from running without ending them. Connections stay open
// and get no reply until Resume.
func (p *Postgres) Pause() error {
	if p.shared {
		return errShared
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.each(Freeze)
}

// Resume ends a Pause.
func (p *Postgres) Resume() error {
	if p.shared {
		return errShared
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.each(Thaw)
}

// each acts first on the server, so that a stopped server starts no more children. Then it acts on
// each child, because the children are not in the server's process group.
func (p *Postgres) each(action func(pid int) error) error {
	if err := action(p.process.pid()); err != nil {
		return err
	}
	pids, err := children(p.process.pid())
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := action(pid); err != nil {
			return err
		}
	}
	return nil
}

// end ends the server, even if it is paused.
func (p *Postgres) end(signal syscall.Signal) error {
	if !p.process.running() {
		return nil
	}
	if err := p.each(Thaw); err != nil {
		return err
	}
	return p.process.end(signal, stopGrace)
}

// running reports whether the server runs. A shared server always runs.
func (p *Postgres) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shared || p.process.running()
}

func (p *Postgres) removeDir() error {
	if !p.ownsDir {
		return nil
	}
	return os.RemoveAll(p.dir)
}
