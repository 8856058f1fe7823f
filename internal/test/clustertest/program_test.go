package clustertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// program is a process of the stock binary that runs until it gets a signal.
type program struct {
	t        *testing.T
	ctx      context.Context
	cmd      *exec.Cmd
	out, log string // paths of files
	ended    chan error
}

func startProgram(ctx context.Context, t *testing.T, dir string, env []string,
	args ...string) *program {
	t.Helper()
	p := &program{t: t, ctx: ctx, out: filepath.Join(dir, "out"), log: filepath.Join(dir, "log"),
		ended: make(chan error, 1)}
	p.cmd = exec.CommandContext(ctx, stockProgram(t), args...)
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), env...)
	out, log := p.create(p.out), p.create(p.log)
	p.cmd.Stdout, p.cmd.Stderr = out, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	servertest.DieWithParent(p.cmd.SysProcAttr, syscall.SIGKILL)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.ended <- p.cmd.Wait()
		out.Close()
		log.Close()
	}()
	return p
}

func (p *program) create(path string) *os.File {
	p.t.Helper()
	file, err := os.Create(path)
	if err != nil {
		p.t.Fatal(err)
	}
	return file
}

func (p *program) read(path string) string {
	p.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// await calls check until it returns true or the program ends.
func (p *program) await(what string, check func() (bool, error)) {
	p.t.Helper()
	for {
		done, err := check()
		if err == nil && done {
			return
		}
		select {
		case ended := <-p.ended:
			p.t.Fatalf("%s: never, the program ended: %v\n%s", what, ended, p.read(p.log))
		case <-p.ctx.Done():
			p.t.Fatalf("%s: never (%v)\n%s", what, err, p.read(p.log))
		case <-time.After(pollEvery):
		}
	}
}

// stop sends SIGTERM and expects exit code 0.
func (p *program) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("it ended with %v, want exit code 0\n%s", err, p.read(p.log))
		}
	case <-p.ctx.Done():
		p.t.Fatalf("it did not end\n%s", p.read(p.log))
	}
	if log := p.read(p.log); strings.Contains(log, "DATA RACE") ||
		strings.Contains(log, "panic: ") {
		p.t.Errorf("its log:\n%s", log)
	}
}

// fetch returns a page. It asks again while the replica refuses it with 503. On a busy machine the
// queries of a page may take longer than 3 s.
func fetch(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		switch {
		case response.StatusCode == http.StatusOK:
			return string(body)
		case response.StatusCode != http.StatusServiceUnavailable:
			t.Fatalf("%s: got %s, want 200", url, response.Status)
		}
	}
}
