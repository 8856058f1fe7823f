package handlers

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has the leader killed when the scheduler dies without a chance
// to end it: its run is then lost, and its tables are given to others.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// awaitExit returns when the leader has exited. It does not reap it, for then
// another process could get its id before what is left of the group is killed.
func awaitExit(cmd *exec.Cmd) leaderEnd {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return leaderEnd{}
		}
	}
}
