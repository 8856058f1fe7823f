package handlers

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// onlyZombies reports whether all processes of a group have exited. Parents that do not wait for
// their children, such as a container's process 1 that is no init, keep them as zombies.
func onlyZombies(group int) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, entry := range entries {
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // no process, or it has ended
		}
		// pid (name) state parent group …
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) &&
			fields[0] != "Z" && fields[0] != "X" {
			return false
		}
	}
	return true
}
