//go:build unix && !linux

package handlers

import (
	"os/exec"
	"syscall"
)

func dieWithParent(*syscall.SysProcAttr) {}

// awaitExit reaps the leader, because these systems have no common way to wait without reaping. The
// remaining processes of its group keep its id from being reused.
func awaitExit(cmd *exec.Cmd) leaderEnd { return leaderEnd{reaped: true, err: cmd.Wait()} }

// onlyZombies would report whether all processes of a group have exited. These systems have no
// common way to find out, and their init reaps such processes soon.
func onlyZombies(int) bool { return false }
