package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/race"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// If asProgram is set, the test binary runs as testrun.
const asProgram = "HOLDFAST_TESTRUN_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// limit bounds waits that take some seconds on an idle machine.
const limit = 3 * time.Minute

// trial is a testrun with the tests of testdata/servers.
type trial struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   bytes.Buffer
	temp  string // the parent of its folder
	ready string // the file that the test writes
	ended chan error
}

func startTrial(t *testing.T, test string, more ...string) *trial {
	t.Helper()
	if testing.Short() {
		t.Skip("needs PostgreSQL and memcached")
	}
	temp, err := os.MkdirTemp("", "testrun-") // not t.TempDir, which other users can't enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(temp); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &trial{t: t, temp: temp, ready: filepath.Join(t.TempDir(), "ready"),
		ended: make(chan error, 1)}
	// With the Makefile's flags: the packages are compiled already.
	args := append(more, "--", "-vet=off", "-ldflags=-s -w", "-run", "^"+test+"$")
	if race.Enabled {
		args = append(args, "-race", "-gcflags=all=-dwarf=false -d=checkptr=0",
			"-gcflags=modernc.org/...=-race=false -dwarf=false -d=checkptr=0",
			"-gcflags=golang.org/x/crypto/argon2=-race=false -dwarf=false -d=checkptr=0")
	}
	r.cmd = exec.Command(self, append(args, "./testdata/servers")...)
	r.cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temp, "TESTRUN_READY="+r.ready)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	return r
}

// await waits until the test has started everything. It returns the addresses of the servers and
// the processes of the run.
func (r *trial) await() (addresses []string, pids []int) {
	r.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(lookEvery) {
		text, err := os.ReadFile(r.ready)
		if err == nil {
			if err := json.Unmarshal(text, &addresses); err != nil {
				r.t.Fatal(err)
			}
			break
		}
		select {
		case err := <-r.ended:
			r.t.Fatalf("testrun ended: %v\n%s", err, &r.out)
		default:
		}
		if time.Now().After(deadline) {
			r.t.Fatal("the test did not start")
		}
	}
	found, err := descendants(r.cmd.Process.Pid, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range found {
		pids = append(pids, p.pid)
	}
	return addresses, pids
}

// end returns the exit code, -1 after a signal.
func (r *trial) end() int {
	r.t.Helper()
	select {
	case err := <-r.ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			r.t.Fatal(err)
		}
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		r.t.Fatal("testrun did not end")
		return 0
	}
}

// expectNobody fails the test if one of the processes is alive or a server listens.
func (r *trial) expectNobody(addresses []string, pids []int) {
	r.t.Helper()
	all, err := processes()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range all {
		if slices.Contains(pids, p.pid) && p.state != "Z" {
			r.t.Errorf("process %s is left", p)
		}
	}
	for _, address := range addresses {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			r.t.Errorf("%s still has a listener", address)
		}
	}
}

func (r *trial) expectNoFiles() {
	r.t.Helper()
	entries, err := os.ReadDir(r.temp)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, entry := range entries {
		r.t.Errorf("%s is left", entry.Name())
	}
}

func TestInterruptStopsAllProcesses(t *testing.T) {
	race.Only(t)
	type signalled struct {
		name   string
		more   []string // arguments of testrun
		signal func(pid int) error
	}
	all := []signalled{
		{"SIGINT to the group, as a terminal sends", []string{"-busy", "1"},
			func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) }},
		{"SIGTERM to testrun, as make sends", nil,
			func(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }},
	}
	for _, tt := range soak.Pick(all[1:], all) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := startTrial(t, "TestServers", tt.more...)
			addresses, pids := r.await()
			if len(addresses) != 4 || len(pids) < 10 {
				t.Fatalf("servers at %v, processes %v: this test shows too little", addresses, pids)
			}
			if err := tt.signal(r.cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
			if code := r.end(); code != interrupted {
				t.Errorf("exit code %d, want %d\n%s", code, interrupted, &r.out)
			}
			r.expectNobody(addresses, pids)
			r.expectNoFiles()
		})
	}
}

func TestKilledTestBinaryLeavesNoProcesses(t *testing.T) {
	race.Only(t)
	r := startTrial(t, "TestServers")
	addresses, pids := r.await()
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, p := range all {
		if slices.Contains(pids, p.pid) && strings.Contains(p.command, "servers.test ") {
			killed++
			if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if killed != 1 {
		t.Fatalf("%d test binaries", killed)
	}
	if code := r.end(); code != 1 || !strings.Contains(r.out.String(), "signal: killed") {
		t.Errorf("exit code %d, want 1\n%s", code, &r.out)
	}
	r.expectNobody(addresses, pids)
	r.expectNoFiles()
}

// The next testrun removes the folder of a killed one.
func TestFolderOfAKilledRunIsRemoved(t *testing.T) {
	temp := t.TempDir()
	abandoned, err := newFolder(temp)
	if err != nil {
		t.Fatal(err)
	}
	used, err := newFolder(temp)
	if err != nil {
		t.Fatal(err)
	}
	if err := abandoned.lock.Close(); err != nil { // as the kernel does at the end of a process
		t.Fatal(err)
	}
	next, err := newFolder(temp)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the abandoned folder: %v", err)
	}
	for _, f := range []*folder{used, next} {
		if _, err := os.Stat(f.path); err != nil {
			t.Error(err)
		}
		if err := f.remove(); err != nil {
			t.Error(err)
		}
	}
}

func TestLeftoverProcessFailsTheRun(t *testing.T) {
	r := startTrial(t, "TestStray")
	_, pids := r.await()
	if code := r.end(); code != 1 || !strings.Contains(r.out.String(), "left a process behind: ") ||
		!strings.Contains(r.out.String(), "sleep 1000") {
		t.Errorf("exit code %d\n%s", code, &r.out)
	}
	r.expectNobody(nil, pids)
}

func TestExitCodes(t *testing.T) {
	r := startTrial(t, "Test(Fails|Passes)", "-runs", "2")
	code, out := r.end(), r.out.String()
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{"--- FAIL: TestFails", "this test always fails",
		"FAIL\tgithub.com/holdfast-dev/holdfast/internal/test/testrun/testdata/servers",
		"slowest tests:", "1 tests passed, 1 failed, 0 skipped",
		"run 2 of 2 ended with exit code 1; 2 failed so far"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out, "nobody reads this") {
		t.Errorf("the log of a test that passed is in\n%s", out)
	}
	r.expectNoFiles()
}

// A package in which only the race detector fails runs once more.
func TestFailureOfTheRaceDetector(t *testing.T) {
	race.Only(t)
	r := startTrial(t, "TestDetectorFails")
	code, out := r.end(), r.out.String()
	if code != 0 || !strings.Contains(out, "CHECK failed") ||
		!strings.Contains(out, "running again") ||
		!strings.Contains(out, "1 tests passed, 0 failed, 0 skipped") {
		t.Errorf("exit code %d, want 0\n%s", code, out)
	}
	r.expectNoFiles()
}
