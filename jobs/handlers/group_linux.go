package handlers

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the leader when the scheduler dies: its run is then lost, and
// other runs get its resources.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// awaitExit returns when the leader has exited. It does not reap it, because another process could
// then get its id before the rest of the group is killed.
func awaitExit(cmd *exec.Cmd) leaderEnd {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return leaderEnd{}
		}
	}
}
