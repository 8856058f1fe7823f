package servertest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// DieWithParent makes the kernel send signal to the process when its parent dies. On systems other
// than Linux it does nothing.
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

// stopped reports whether no thread of the process runs. A signal takes effect some time after it
// is sent. An ended process remains a zombie while its parent is frozen.
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

// readStat returns the state of a process or thread, and its parent. Both are empty if it has
// ended.
func readStat(path string) (state, parent string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", ""
	}
	// The second field is a name in parentheses that may contain any character.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return "", ""
	}
	return string(fields[0]), string(fields[1])
}
