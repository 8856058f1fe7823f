//go:build unix

package handlers

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
)

const (
	// linger is how long the remaining processes of a group may go on after the leader has exited,
	// and how long their last output is awaited.
	linger = time.Second
	// maxPause is the longest pause between two looks at the remaining processes.
	maxPause = 50 * time.Millisecond
)

// group is a process and its descendants.
type group struct {
	cmd    *exec.Cmd
	output *os.File      // read end of the group's stdout and stderr
	exited chan struct{} // closed when the leader has exited
	silent chan struct{} // closed when no process can write output any more
	end    leaderEnd     // set when exited is closed
}

// leaderEnd is the result of waiting for the leader's exit.
type leaderEnd struct {
	reaped bool  // if false, its id is still reserved and safe to signal
	err    error // the error of Wait
}

// runGroup runs cmd as the leader of a process group, copies its output to the writers, and returns
// when the group is gone. stopped reports whether ctx ended while the leader was running.
func runGroup(ctx context.Context, cmd *exec.Cmd, grace time.Duration,
	to ...io.Writer) (stopped bool, err error) {
	// The leader is killed with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g, err := startGroup(cmd, io.MultiWriter(to...))
	if err != nil {
		return false, err
	}
	stopped, left := g.await(ctx)
	// A process that has left the group may hold the output. It gets no signal, so a grace would be
	// of no use.
	others := left && (stopped || g.lives())
	gone := !others
	if others {
		g.signal(syscall.SIGTERM)
		gone = g.awaitGone(context.Background(), grace)
	}
	// A look at the processes can miss one that has just begun. While the leader is not reaped, no
	// other group can get the signal.
	if !gone || !g.end.reaped {
		g.signal(syscall.SIGKILL)
	}
	<-g.exited
	silent := wait(g.silent, linger)
	g.output.Close()
	<-g.silent
	err = g.reap()
	switch {
	case stopped:
	case others:
		fmt.Fprintln(to[0], "[processes that the command left behind were ended]")
	case !silent:
		fmt.Fprintln(to[0], "[a process that left the group of the command still holds its output "+
			"and was not ended]")
	}
	return stopped, err
}

func startGroup(cmd *exec.Cmd, to io.Writer) (*group, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe for the output: %w", err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	err = cmd.Start()
	write.Close()
	if err != nil {
		read.Close()
		return nil, err
	}
	g := &group{cmd: cmd, output: read, exited: make(chan struct{}), silent: make(chan struct{})}
	go func() {
		defer close(g.silent)
		io.Copy(to, g.output) //nolint:errcheck // ends by EOF, or by runGroup closing what it reads
	}()
	go func() {
		defer close(g.exited)
		g.end = awaitExit(g.cmd)
	}()
	return g, nil
}

// await returns when the group is gone, when ctx ends (stopped, if the leader was running), or when
// linger has passed after the leader's exit and other processes remain.
func (g *group) await(ctx context.Context) (stopped, left bool) {
	select {
	case <-g.exited:
		return false, !g.awaitGone(ctx, linger)
	case <-ctx.Done():
	}
	select {
	case <-g.exited: // both at once: it was not stopped
		return false, true
	default:
		return true, true
	}
}

// awaitGone reports whether the group was gone before ctx ended and before the time had passed: the
// leader has exited, nobody can write output, and no other process of the group lives.
func (g *group) awaitGone(ctx context.Context, long time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	for _, end := range []chan struct{}{g.exited, g.silent} {
		select {
		case <-end:
		case <-ctx.Done():
			return false
		}
	}
	for pause := time.Millisecond; g.lives(); pause = min(2*pause, maxPause) {
		if sleep.For(ctx, pause) != nil {
			return false
		}
	}
	return true
}

// reap returns the error of the leader, which has exited.
func (g *group) reap() error {
	if !g.end.reaped {
		g.end = leaderEnd{reaped: true, err: g.cmd.Wait()}
	}
	return g.end.err
}

// lives reports whether the group has a process besides the leader, which has exited. A leader that
// is not reaped keeps the group's id from being reused. So it is reaped here only if there is no
// other way to find out.
func (g *group) lives() bool {
	id := g.cmd.Process.Pid
	if live, known := othersLive(id); known {
		return live
	}
	g.reap() //nolint:errcheck // runGroup returns the error
	return syscall.Kill(-id, 0) == nil
}

func (g *group) signal(s syscall.Signal) {
	syscall.Kill(-g.cmd.Process.Pid, s) //nolint:errcheck // that none is left is no error
}

// wait reports whether done was closed before the time had passed.
func wait(done <-chan struct{}, long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
