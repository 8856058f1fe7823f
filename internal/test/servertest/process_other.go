//go:build unix && !linux

package servertest

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// DieWithParent does nothing, because this kernel has no such function.
func DieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// children returns the ids of the processes that pid started.
func children(pid int) ([]int, error) {
	listing, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("list of processes: %w", err)
	}
	var found []int
	for line := range strings.Lines(string(listing)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("process id %q: %w", fields[0], err)
		}
		found = append(found, child)
	}
	return found, nil
}

// stopped reports whether the process does not run. A signal takes effect some time after it is
// sent.
func stopped(pid int) (bool, error) {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false, fmt.Errorf("state of process %d: %w", pid, err)
	}
	return strings.HasPrefix(strings.TrimSpace(string(state)), "T"), nil
}
