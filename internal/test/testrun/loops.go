package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// loops are processes that each keep one processor busy.
type loops []*exec.Cmd

// startLoops starts n loops. They die with this process.
//
// Each has a session of its own, as another program has. With the autogroup
// scheduling of Linux, loops in the session of the tests kept backends of
// PostgreSQL, each in a session of its own, from running for up to 5 s.
func startLoops(n int) (loops, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("path of this program: %w", err)
	}
	var all loops
	for range n {
		cmd := exec.Command(program, spinCommand)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		servertest.DieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("start busy loop: %w", err), all.stop())
		}
		all = append(all, cmd)
	}
	return all, nil
}

// stop ends the loops by their process ids.
func (l loops) stop() error {
	var problems []error
	for _, cmd := range l {
		if err := cmd.Process.Kill(); err != nil {
			problems = append(problems, fmt.Errorf("stop busy loop: %w", err))
		}
	}
	for _, cmd := range l {
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) { // it was killed
			problems = append(problems, fmt.Errorf("stop busy loop: %w", err))
		}
	}
	return errors.Join(problems...)
}

func (l loops) pids() []int {
	var pids []int
	for _, cmd := range l {
		pids = append(pids, cmd.Process.Pid)
	}
	return pids
}
