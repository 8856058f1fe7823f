package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc, the same on every Linux.
const tick = 10 * time.Millisecond

// process is what /proc says of a process. Elsewhere than on Linux, where
// there is none, it is zero.
type process struct {
	parent int
	used   time.Duration // by itself, user and system
	ended  time.Duration // by children that have ended
}

func readProcess(pid int) (process, error) {
	if runtime.GOOS != "linux" {
		return process{}, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	return parseProcess(string(text))
}

// parseProcess reads a line of /proc/PID/stat, of which the second field, in
// parentheses, may hold anything.
func parseProcess(line string) (process, error) {
	_, rest, _ := strings.Cut(line[max(0, strings.LastIndex(line, ")")):], " ")
	fields := strings.Fields(rest) // from the third, the state, on
	if len(fields) < 15 {
		return process{}, fmt.Errorf("/proc/PID/stat: expected 17 fields or more, found %q", line)
	}
	numbers := make([]int64, 15)
	for i := 1; i < 15; i++ {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return process{}, fmt.Errorf("/proc/PID/stat: field %d: %w", i+3, err)
		}
		numbers[i] = n
	}
	return process{
		parent: int(numbers[1]),
		used:   time.Duration(numbers[11]+numbers[12]) * tick,
		ended:  time.Duration(numbers[13]+numbers[14]) * tick,
	}, nil
}

// familyTime is the processor time of a PostgreSQL server, one of whose
// backends is given: of the server, of its children, and of those that ended.
func familyTime(backend int) (time.Duration, error) {
	own, err := readProcess(backend)
	if err != nil || own.parent == 0 {
		return 0, err
	}
	server, err := readProcess(own.parent)
	if err != nil {
		return 0, err
	}
	all := server.used + server.ended
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return 0, err
		}
		if p, err := readProcess(pid); err == nil && p.parent == own.parent {
			all += p.used
		}
	}
	return all, nil
}

// largestMemory returns the resident memory of the largest process, in bytes.
func largestMemory(pids []int) (int64, error) {
	var largest int64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if errors.Is(err, fs.ErrNotExist) && runtime.GOOS != "linux" {
			return 0, nil
		} else if err != nil {
			return 0, fmt.Errorf("memory of a replica: %w", err)
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0, fmt.Errorf("memory of a replica: process %d has none", pid)
		}
		kilobytes, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("memory of a replica: %w", err)
		}
		largest = max(largest, kilobytes<<10)
	}
	return largest, nil
}
