package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	leaveGrace = 5 * time.Second // for processes that are ending
	killGrace  = 10 * time.Second
	lookEvery  = 20 * time.Millisecond
)

// process is one process according to /proc.
type process struct {
	pid, parent int
	state       string // one letter; Z: it has ended, and its parent has not waited for it
	command     string
}

func (p process) String() string { return fmt.Sprintf("%d (%s)", p.pid, p.command) }

// processes returns all processes of the machine.
func processes() ([]process, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []process
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The second field is a name in parentheses that may hold anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || len(fields) < 2 {
			return nil, fmt.Errorf("list processes: %s is not understood", path)
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, fmt.Errorf("list processes: %s: %w", path, err)
		}
		all = append(all, process{pid: pid, parent: parent, state: fields[0],
			command: command(pid)})
	}
	return all, nil
}

// command returns the shortened command line of a process, or "" if it has ended.
func command(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	line := strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
	return line[:min(len(line), 200)]
}

// descendants returns the processes below root, except those in except and their descendants.
func descendants(root int, except []int) ([]process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var found []process
	for parents := []int{root}; len(parents) > 0; {
		var next []int
		for _, p := range all {
			if slices.Contains(parents, p.parent) && !slices.Contains(except, p.pid) {
				found, next = append(found, p), append(next, p.pid)
			}
		}
		parents = next
	}
	return found, nil
}

// reap waits for the ends of adopted processes, as init does, until stop is called. It does not
// wait for the children in own, because their starters do. This process must start no other
// children meanwhile.
func reap(own []int) (stop func()) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-ended:
				reapEnded(own)
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(ended)
		close(done)
		<-gone
	}
}

func reapEnded(own []int) {
	all, err := processes()
	if err != nil {
		return // the next SIGCHLD calls this function again
	}
	for _, p := range all {
		if p.parent == os.Getpid() && p.state == "Z" && !slices.Contains(own, p.pid) {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil) // the status is not needed
		}
	}
}

// endDescendants waits until this process has no descendants except those in except. After a time
// it kills the remaining ones and returns them.
func endDescendants(except []int) (stayed []process, err error) {
	left, err := awaitNone(except, leaveGrace, syscall.SIGCONT)
	if err != nil || len(left) == 0 {
		return nil, err
	}
	rest, err := awaitNone(except, killGrace, syscall.SIGKILL)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("processes outlive SIGKILL: %v", rest)
	}
	return left, err
}

// awaitNone waits a limited time for all to end and returns the remaining ones. It signals each one
// repeatedly. SIGCONT lets a frozen process receive the signal that ends it.
func awaitNone(except []int, limit time.Duration, s syscall.Signal) ([]process, error) {
	for deadline := time.Now().Add(limit); ; time.Sleep(lookEvery) {
		reapEnded(except)
		left, err := descendants(os.Getpid(), except)
		if err != nil || len(left) == 0 || time.Now().After(deadline) {
			return left, err
		}
		for _, p := range left {
			if err := syscall.Kill(p.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
				return left, fmt.Errorf("send %v to %s: %w", s, p, err)
			}
		}
	}
}
