//go:build unix && !linux

package handlers

import (
	"os/exec"
	"syscall"
)

func dieWithParent(*syscall.SysProcAttr) {}

// awaitExit reaps the leader: these systems have no common way to wait and
// leave it. What is left of its group keeps its id from being reused.
func awaitExit(cmd *exec.Cmd) leaderEnd { return leaderEnd{reaped: true, err: cmd.Wait()} }
