package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTries  = 5                // each with another port, in case another program takes one
	startLimit  = 30 * time.Second // for a server to answer
	stopGrace   = 10 * time.Second
	readyChecks = 5 * time.Millisecond
)

// Memcached is a running memcached. Its methods may be called concurrently.
type Memcached struct {
	program string
	guard   Guard
	flags   []string
	dir     string

	mu      sync.Mutex
	port    int
	process *process
}

// StartMemcached starts memcached on a free loopback port and returns once it answers. Flags such
// as "-M", "-m", "1" follow its own.
func StartMemcached(ctx context.Context, flags ...string) (*Memcached, error) {
	return startMemcached(ctx, Guard{}, flags)
}

func startMemcached(ctx context.Context, guard Guard, flags []string) (*Memcached, error) {
	program, err := FindBinary("memcached", "memcached")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "memcached-")
	if err != nil {
		return nil, fmt.Errorf("folder for memcached: %w", err)
	}
	m := &Memcached{program: program, guard: guard, flags: flags, dir: dir}
	for range startTries {
		if m.port, err = freePort(); err != nil {
			break
		}
		if err = m.start(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return m, nil
}

// NewMemcached is StartMemcached for one test. The test stops it at its end.
func NewMemcached(t testing.TB, flags ...string) *Memcached {
	t.Helper()
	return NewGuardedMemcached(t, Guard{}, flags...)
}

// NewGuardedMemcached is NewMemcached for a server with TLS (-Z) or a password (-Y). The caller
// gives these flags.
func NewGuardedMemcached(t testing.TB, guard Guard, flags ...string) *Memcached {
	t.Helper()
	m, err := startMemcached(t.Context(), guard, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Addr returns host:port; a restart does not change it.
func (m *Memcached) Addr() string { return address(m.port) }

// Restart ends the process and starts another on the same port. The data is lost and all
// connections break.
func (m *Memcached) Restart(ctx context.Context) error {
	if err := m.Kill(); err != nil {
		return err
	}
	return m.Start(ctx)
}

// Kill ends the process at once. Start starts another in its place.
func (m *Memcached) Kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process.end(syscall.SIGKILL, stopGrace)
}

// Start starts the server again after Kill, on the same port.
func (m *Memcached) Start(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process.running() {
		return nil
	}
	return m.start(ctx)
}

// Stop ends the process and removes its folder. It may be called more than once.
func (m *Memcached) Stop() error { return errors.Join(m.Kill(), os.RemoveAll(m.dir)) }

// Pause stops the process from running without ending it. Connections stay open and get no reply
// until Resume.
func (m *Memcached) Pause() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Freeze(m.process.pid())
}

// Resume ends a Pause.
func (m *Memcached) Resume() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Thaw(m.process.pid())
}

func (m *Memcached) start(ctx context.Context) error {
	credential, err := account("nobody")
	if err != nil {
		return err
	}
	logPath := filepath.Join(m.dir, "log")
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("log of memcached: %w", err)
	}
	defer logFile.Close()
	args := append([]string{"-l", loopback, "-p", strconv.Itoa(m.port), "-U", "0"}, m.flags...)
	p, err := startProcess(credential, syscall.SIGKILL, "/", logFile, m.program, args...)
	if err != nil {
		return err
	}
	// Another program on the port would report another process id.
	err = p.waitReady(ctx, "memcached", logPath, func(ctx context.Context) bool {
		pid, err := m.guard.askPID(ctx, address(m.port))
		return err == nil && pid == p.pid()
	})
	if err != nil {
		return errors.Join(err, p.end(syscall.SIGKILL, stopGrace))
	}
	m.process = p
	return nil
}
