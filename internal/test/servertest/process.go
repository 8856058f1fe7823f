package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is a server's program while it runs.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
	err    error         // the result of Wait; read it after exited is closed
}

// startProcess starts program as credential (nil: the current user) with its
// output in logFile.
func startProcess(credential *syscall.Credential, onParentDeath syscall.Signal, dir string,
	logFile *os.File, program string, args ...string) (*process, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	DieWithParent(cmd.SysProcAttr, onParentDeath)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start of %s: %w", program, err)
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

var errEnded = errors.New("server ended")

// waitReady returns once the server reports that it is ready.
func (p *process) waitReady(ctx context.Context, server, logPath string,
	ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(readyChecks)
	defer tick.Stop()
	for !ready(ctx) {
		select {
		case <-tick.C:
		case <-p.exited:
			return fmt.Errorf("%s ended at its start (%w): %s", server,
				errors.Join(errEnded, p.err), lastOutput(logPath))
		case <-ctx.Done():
			return fmt.Errorf("%s did not get ready: %w: %s", server, ctx.Err(),
				lastOutput(logPath))
		}
	}
	return nil
}

// end sends the signal and waits for the end of the process. It kills the process after the grace
// period.
func (p *process) end(signal syscall.Signal, grace time.Duration) error {
	if !p.running() {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil && p.running() {
		return fmt.Errorf("signal %v: %w", signal, err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timer.C:
	}
	if err := p.cmd.Process.Kill(); err != nil && p.running() {
		return fmt.Errorf("kill: %w", err)
	}
	<-p.exited
	return nil
}

// Freeze stops the process with the given id and returns when none of its threads runs. It ignores
// a process that has ended.
func Freeze(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop of process %d: %w", pid, err)
	}
	for deadline := time.Now().Add(stopGrace); ; time.Sleep(time.Millisecond) {
		if done, err := stopped(pid); done || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("stop of process %d: it still runs", pid)
		}
	}
}

// Thaw continues a frozen process. It ignores a process that has ended.
func Thaw(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("resumption of process %d: %w", pid, err)
	}
	return nil
}

// lastOutput returns the end of a server's log, for error messages.
func lastOutput(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(text) == 0 {
		return "it wrote nothing"
	}
	return string(text[max(0, len(text)-2000):])
}
