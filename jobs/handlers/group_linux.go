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

// statThreads is the index of the number of threads among the fields behind the name in
// /proc/PID/stat.
const statThreads = 17

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

// othersLive reports whether a process of a group lives besides the leader, which has exited and is
// not reaped. known is false if /proc does not show the leader, because it is not mounted or is of
// another PID namespace.
//
// Parents that do not wait for their children, such as a container's process 1 that is no init,
// keep them as zombies. Such a process has exited.
func othersLive(leader int) (live, known bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, false
	}
	group := strconv.Itoa(leader)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // no process
		}
		if of, err := unix.Getpgid(pid); err != nil || of != leader {
			continue // it has ended, or is of another group
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent group …
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) <= statThreads || fields[2] != group {
			continue
		}
		exited := fields[0] == "Z" || fields[0] == "X"
		switch {
		case entry.Name() == group:
			known = exited
		case !exited, fields[statThreads] != "0" && fields[statThreads] != "1":
			live = true // a process whose first thread alone has exited is shown as a zombie
		}
	}
	return live, known
}
