package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// goTest runs go test with the arguments and returns its exit code. The processes in own are the
// other children of this process.
func goTest(ctx context.Context, args, env []string, own []int, r *report) (code int, err error) {
	program := os.Getenv("GO")
	if program == "" {
		program = "go"
	}
	self, err := os.Executable()
	if err != nil {
		return 1, fmt.Errorf("path of this program: %w", err)
	}
	cmd := exec.Command(program, slices.Concat([]string{"test", "-json"}, bound(self), args)...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	servertest.DieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, fmt.Errorf("go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("go test: %w", err)
	}
	// The test binaries die with go test, and their servers with them.
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })() // it may have ended already
	stopReaping := reap(append(own, cmd.Process.Pid))
	err = r.read(events)
	waited := cmd.Wait()
	stopReaping()
	var exit *exec.ExitError
	if ctx.Err() == nil && errors.As(waited, &exit) {
		return exit.ExitCode(), err
	}
	if ctx.Err() != nil {
		return interrupted, nil
	}
	return 0, errors.Join(err, waited)
}
