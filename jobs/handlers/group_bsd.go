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

// othersLive would report whether a process of a group lives besides its leader. These systems have
// no common way to find out while the leader is not reaped.
func othersLive(int) (live, known bool) { return false, false }
