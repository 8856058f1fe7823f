package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// bound returns the arguments of go test that make test binaries die with it.
func bound(self string) []string { return []string{"-exec", self + " " + bindCommand} }

// bind replaces this process by the program. The kernel kills the program when the parent dies.
// bind returns only if it fails.
func bind(args []string) error {
	parent := os.Getppid()
	err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0)
	if err != nil {
		return fmt.Errorf("bind to the parent: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("bind to the parent: it has ended")
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("start %s: %w", program, syscall.Exec(program, args, os.Environ()))
}

// adoptOrphans makes this process the parent of orphaned descendants. It also makes this process
// end as after SIGTERM when its own parent dies.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
	if err != nil {
		return fmt.Errorf("bind to the parent: %w", err)
	}
	return nil
}
