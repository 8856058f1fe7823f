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
)

// linger is how long the remaining processes of a group may go on after the leader has exited, and
// how long their last output is awaited.
const linger = time.Second

// group is a process and its descendants.
type group struct {
	cmd    *exec.Cmd
	output *os.File      // read end of the group's stdout and stderr
	exited chan struct{} // closed when the leader has exited
	silent chan struct{} // closed when no process can write output any more
	gone   chan struct{} // closed when both are
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
	if left {
		g.signal(syscall.SIGTERM)
		wait(context.Background(), g.gone, grace)
	}
	g.signal(syscall.SIGKILL)
	<-g.exited
	wait(context.Background(), g.silent, linger)
	g.output.Close()
	<-g.gone
	if err = g.end.err; !g.end.reaped {
		err = cmd.Wait()
	}
	if left && !stopped {
		fmt.Fprintln(to[0], "[processes that the command left behind were ended]")
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
	g := &group{cmd: cmd, output: read, exited: make(chan struct{}), silent: make(chan struct{}),
		gone: make(chan struct{})}
	go g.watch(to)
	return g, nil
}

// watch copies the output and waits for the leader. It ends with the group; runGroup waits for it.
func (g *group) watch(to io.Writer) {
	go func() {
		defer close(g.silent)
		io.Copy(to, g.output) //nolint:errcheck // ends by EOF, or by runGroup closing what it reads
	}()
	g.end = awaitExit(g.cmd)
	close(g.exited)
	<-g.silent
	close(g.gone)
}

// await returns when the group is gone, when ctx ends (stopped, if the leader was running), or when
// linger has passed after the leader's exit and other processes remain.
func (g *group) await(ctx context.Context) (stopped, left bool) {
	select {
	case <-g.exited:
		return false, !wait(ctx, g.gone, linger)
	case <-ctx.Done():
	}
	select {
	case <-g.exited: // both at once: it was not stopped
		return false, true
	default:
		return true, true
	}
}

func (g *group) signal(s syscall.Signal) {
	syscall.Kill(-g.cmd.Process.Pid, s) //nolint:errcheck // that none is left is no error
}

// wait reports whether done was closed before ctx ended and before the time had passed.
func wait(ctx context.Context, done <-chan struct{}, long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}
