package servertest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// DieWithParent makes the kernel send signal to the process when the one that
// started it dies without having stopped it. Elsewhere than on Linux it does
// nothing.
func DieWithParent(attributes *syscall.SysProcAttr, signal syscall.Signal) {
	attributes.Pdeathsig = signal
}

// children returns the ids of the processes that pid started.
func children(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("list of processes: %w", err)
	}
	var found []int
	for _, path := range stats {
		if _, parent := readStat(path); parent != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, fmt.Errorf("process id in %s: %w", path, err)
		}
		found = append(found, child)
	}
	return found, nil
}

// stopped reports whether none of the process's threads runs: a signal to stop
// takes effect a little later than it is sent. One that has ended stays a zombie
// while its parent is frozen.
func stopped(pid int) (bool, error) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, fmt.Errorf("list of threads: %w", err)
	}
	for _, path := range stats {
		switch state, _ := readStat(path); state {
		case "", "T", "Z", "X":
		default:
			return false, nil
		}
	}
	return true, nil
}

// readStat returns a process's or thread's state, and its parent. Both are
// empty when it has ended.
func readStat(path string) (state, parent string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", ""
	}
	// The second field is a name in parentheses that may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return "", ""
	}
	return string(fields[0]), string(fields[1])
}
