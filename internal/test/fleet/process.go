package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// The environment variables that make a process a member of a fleet.
const (
	memberName      = "HOLDFAST_MEMBER"
	memberDatabase  = "HOLDFAST_MEMBER_DATABASE"
	memberMemcached = "HOLDFAST_MEMBER_MEMCACHED"
)

// Process is a member, as seen by the process that started it. Its methods may be called
// concurrently.
type Process struct {
	Name string
	// Lines receives each line that the member prints, and is closed at the member's end. The
	// caller must read it, otherwise the member blocks when the pipe is full.
	Lines <-chan string

	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error // the result of Wait; read it after exited is closed
}

// Spawn starts this program again as a member with the name and arguments. The member is killed
// when ctx ends.
func (f *Fleet) Spawn(ctx context.Context, name string, args ...string) (*Process, error) {
	p := &Process{Name: name, log: filepath.Join(f.dir, name+".log"), exited: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("member %s: %w", name, err)
	}
	defer log.Close() // the member has its own copy
	p.cmd = exec.CommandContext(ctx, f.program, args...)
	p.cmd.Stderr = log
	p.cmd.Env = append(os.Environ(), memberName+"="+name, memberDatabase+"="+f.URL,
		memberMemcached+"="+f.Memcached.Addr())
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	servertest.DieWithParent(p.cmd.SysProcAttr, syscall.SIGKILL)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("member %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("member %s: %w", name, err)
	}
	lines := make(chan string, 1024)
	p.Lines = lines
	go func() {
		text := bufio.NewScanner(out)
		for text.Scan() {
			lines <- text.Text()
		}
		p.err = errors.Join(text.Err(), p.cmd.Wait())
		close(lines)
		close(p.exited)
	}()
	return p, nil
}

// Expect waits for a line that begins with the word, skips other lines, and returns the rest of the
// line.
func (p *Process) Expect(ctx context.Context, word string) (string, error) {
	for {
		select {
		case line, more := <-p.Lines:
			if !more {
				return "", p.failed(fmt.Errorf("it ended before it said %q", word))
			}
			if rest, found := strings.CutPrefix(line, word); found {
				return strings.TrimSpace(rest), nil
			}
		case <-ctx.Done():
			return "", p.failed(fmt.Errorf("it did not say %q: %w", word, context.Cause(ctx)))
		}
	}
}

// Signal sends a signal to the member.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the member as kill -9 does, and waits for its end.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	p.drain()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Stop asks the member to stop, and waits for its end.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.Wait(ctx)
}

// Wait waits for the member's end, discards its remaining output, and returns its error. The error
// includes the end of the log.
func (p *Process) Wait(ctx context.Context) error {
	for {
		select {
		case _, more := <-p.Lines:
			if more {
				continue
			}
			<-p.exited
			if p.err != nil {
				return p.failed(p.err)
			}
			return nil
		case <-ctx.Done():
			return errors.Join(p.failed(context.Cause(ctx)), p.Kill())
		}
	}
}

func (p *Process) drain() {
	for range p.Lines {
	}
	<-p.exited
}

func (p *Process) failed(err error) error {
	log, readErr := os.ReadFile(p.log)
	if readErr != nil {
		log = []byte(readErr.Error())
	}
	return fmt.Errorf("member %s: %w\n%s", p.Name, err, log[max(0, len(log)-3000):])
}
