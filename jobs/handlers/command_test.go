//go:build unix

package handlers_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

func shell(script string) []string { return []string{"sh", "-c", script} }

func TestCommandOutputAndEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SCHEDULER", "hunter2")
	dir := t.TempDir()
	run := newRun("nightly")
	handle := mustBind(t, "command",
		object{"command": shell("pwd; echo to stderr >&2; env"), "dir": dir,
			"env": object{"MINE": "a b", "TZ": "Asia/Tokyo"}})
	if err := handle(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(run.OutputText(), "\n")
	for _, want := range []string{dir, "to stderr", "MINE=a b", "TZ=Asia/Tokyo",
		"PATH=" + os.Getenv("PATH"), "HOLDFAST_JOB=nightly",
		"HOLDFAST_RUN=" + run.ID.String(), "HOLDFAST_SCHEDULED_AT=2026-05-01T07:00:00Z",
		"HOLDFAST_TOKEN=42"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in %q", want, lines)
		}
	}
	if strings.Contains(run.OutputText(), "hunter2") {
		t.Error("environment of the command: got variables of the scheduler, want none")
	}
}

func TestCommandHasNoShell(t *testing.T) {
	run := newRun("j")
	if err := mustBind(t, "command",
		object{"command": []string{"printf", "%s|", "$HOME", "a b", "*", "; exit 3"}})(t.Context(),
		run); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, run, "$HOME|a b|*|; exit 3|")
	wantResult(t, run, `{"exit_code":0}`)
}

func TestCommandErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		params object
		want   []string
	}{
		{object{"command": shell("echo first; echo no such table >&2; exit 3")}, []string{"command sh: exit status 3: first\nno such table"}},
		{object{"command": shell(`printf '\033[1;31mno such\033[0m table\n'; exit 3`)},
			[]string{"command sh: exit status 3: no such table"}},
		{object{"command": shell("exit 1")}, []string{"command sh: exit status 1"}},
		{object{"command": shell("kill -9 $$")}, []string{"command sh: signal: killed"}},
		{object{"command": []string{"no-such-program"}}, []string{"command no-such-program: program not found in PATH"}},
		{object{"command": []string{"/no/such/program"}}, []string{"command /no/such/program", "no such file"}},
		{object{"command": []string{file}}, []string{"permission denied"}},
		{object{"command": []string{"true"}, "dir": "/no/such/dir"}, []string{"dir: ", "/no/such/dir"}},
		{object{"command": []string{"true"}, "dir": file}, []string{"is not a directory"}},
	} {
		wantError(t, mustBind(t, "command", c.params)(t.Context(), newRun("j")), c.want...)
	}
	var status *exec.ExitError
	if err := mustBind(t, "command", object{"command": shell("exit 7")})(t.Context(),
		newRun("j")); !errors.As(err, &status) || status.ExitCode() != 7 {
		t.Errorf("%v does not wrap the exit status", err)
	}
}

func TestCommandKeepsTheEndOfALongOutput(t *testing.T) {
	run := newRun("j")
	script :=
		`i=0; while [ $i -lt 20000 ]; do echo "line $i of many"; i=$((i+1)); done; printf 'caf\303\251 \377\000end'; exit 4`
	err := mustBind(t, "command", object{"command": shell(script)})(t.Context(), run)
	wantError(t, err, "exit status 4: [earlier output was cut]\n",
		"line 19999 of many\ncafé \uFFFD\uFFFDend")
	if len(err.Error()) > 700 {
		t.Errorf("the error quotes %d bytes", len(err.Error()))
	}
	text := run.OutputText()
	if !strings.HasPrefix(text, "[earlier output was cut]\n") ||
		!strings.HasSuffix(text, "café \uFFFD\uFFFDend") || len(text) < 60<<10 {
		t.Errorf("%d bytes, ending in %q", len(text), text[len(text)-60:])
	}
}

// family is a command whose grandchild keeps a FIFO open. Reading the FIFO ends when the grandchild
// is dead, and not before.
type family struct {
	lines chan string // lines that the grandchild writes; closed when it ends
	path  string
}

func newFamily(t *testing.T) family {
	t.Helper()
	f := family{lines: make(chan string), path: filepath.Join(t.TempDir(), "fifo")}
	if err := syscall.Mkfifo(f.path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.lines)
		fifo, err := os.Open(f.path) // until the FIFO has a writer
		if err != nil {
			t.Error(err)
			return
		}
		defer fifo.Close()
		for scanner := bufio.NewScanner(fifo); scanner.Scan(); {
			f.lines <- scanner.Text()
		}
	}()
	return f
}

// grandchild is a shell script that does not end by itself. It writes "ready" when its trap is set
// and its own child accepts signals. A shell that has just forked ignores signals, and a program
// that it then starts would survive until the end of the grace period.
func (f family) grandchild(trap string) string {
	return `sh -c 'trap "` + trap +
		`" TERM; while :; do sh -c "echo ready; exec sleep 1000" & wait; done' >` + f.path
}

func (f family) expect(t *testing.T, want string) {
	t.Helper()
	if line, ok := <-f.lines; line != want || !ok {
		t.Fatalf("grandchild wrote %q (%t), want %q", line, ok, want)
	}
}

func (f family) expectDead(t *testing.T) {
	t.Helper()
	if line, ok := <-f.lines; ok {
		t.Fatalf("grandchild wrote %q, want its end", line)
	}
}

func start(ctx context.Context, t *testing.T, params object) chan error {
	t.Helper()
	handle, ended := mustBind(t, "command", params), make(chan error, 1)
	go func() { ended <- handle(ctx, newRun("j")) }()
	return ended
}

func TestCommandGroupIsTerminatedOnCancel(t *testing.T) {
	f := newFamily(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := start(ctx, t,
		object{"command": shell(f.grandchild("echo bye; exit") + "; echo after")})
	f.expect(t, "ready")
	cancel(jobs.ErrShutdown)
	f.expect(t, "bye")
	f.expectDead(t)
	err := <-ended
	wantError(t, err, "command sh: stopped: replica is shutting down (signal: terminated)")
	if !errors.Is(err, jobs.ErrShutdown) {
		t.Errorf("%v does not wrap the cause", err)
	}
}

func TestCommandGroupIsKilledAfterTheGrace(t *testing.T) {
	for _, background := range []string{"", " & wait"} {
		f := newFamily(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := start(ctx, t,
			object{"command": shell("trap '' TERM; " + f.grandchild("echo no") + background),
				"grace": "100ms"})
		f.expect(t, "ready")
		cancel(jobs.ErrCancelled)
		for range f.lines { // the traps write while they run
		}
		wantError(t, <-ended, "stopped: cancelled by an operator", "signal: killed")
	}
}

func TestCommandGraceIsForTheWholeGroup(t *testing.T) {
	for _, redirect := range []string{"", " 2>/dev/null"} { // of the command's output
		f := newFamily(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		// The leader ends at once. Its child ends a moment later.
		child := "(" + f.grandchild("sleep 0.3; echo tidied; exit") + ")" + redirect
		ended := start(ctx, t, object{"command": shell(child + " & wait")})
		f.expect(t, "ready")
		cancel(jobs.ErrCancelled)
		f.expect(t, "tidied")
		f.expectDead(t)
		wantError(t, <-ended, "stopped: cancelled by an operator")
	}
}

func TestCommandWithExitCode0OnCancelIsNotASuccess(t *testing.T) {
	f := newFamily(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := start(ctx, t, object{"command": shell("exec " + f.grandchild("exit 0"))})
	f.expect(t, "ready")
	cancel(jobs.ErrClaimLost)
	err := <-ended
	if !errors.Is(err, jobs.ErrClaimLost) || err.Error() != "command sh: stopped: claim is lost" {
		t.Errorf("got %v, want the cause alone", err)
	}
}

// TestCommandLeavesNoProcesses checks commands that exit while a child still runs. The child holds
// the command's output open, or writes elsewhere.
func TestCommandLeavesNoProcesses(t *testing.T) {
	for name, redirect := range map[string]string{
		"holding the output": "2>&1", "output elsewhere": "2>/dev/null",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFamily(t)
			run, ended := newRun("j"), make(chan error, 1)
			// The leader exits when it reads from the FIFO named "go" that the grandchild is
			// ready.
			goOn := f.path + ".go"
			if err := syscall.Mkfifo(goOn, 0o600); err != nil {
				t.Fatal(err)
			}
			child := "(" + f.grandchild("echo bye; exit") + ") " + redirect
			handle := mustBind(t, "command",
				object{"command": shell(child + " & read line <" + goOn + "; echo done")})
			go func() { ended <- handle(t.Context(), run) }()
			f.expect(t, "ready")
			if err := os.WriteFile(goOn, []byte("go\n"), 0); err != nil {
				t.Fatal(err)
			}
			f.expect(t, "bye")
			f.expectDead(t)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			wantOutput(t, run, "done\n[processes that the command left behind were ended]\n")
		})
	}
}

func TestCommandWithEndedContextIsNotStarted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(jobs.ErrShutdown)
	mark := filepath.Join(t.TempDir(), "mark")
	err := mustBind(t, "command", object{"command": []string{"touch", mark}})(ctx, newRun("j"))
	wantError(t, err, "not started: replica is shutting down")
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was started: %v", err)
	}
}

func TestCommandHasEmptyStandardInput(t *testing.T) {
	run := newRun("j")
	if err := mustBind(t, "command", object{"command": []string{"cat"}})(t.Context(),
		run); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, run, "")
}

// TestConcurrentCommands runs many commands at the same time for the race detector.
func TestConcurrentCommands(t *testing.T) {
	handle := mustBind(t, "command", object{"command": shell("echo $HOLDFAST_RUN")})
	ended := make(chan error)
	for range 20 {
		go func() {
			run := newRun("j")
			err := handle(t.Context(), run)
			if err == nil && run.OutputText() != run.ID.String()+"\n" {
				err = errors.New("another run's output: " + run.OutputText())
			}
			ended <- err
		}()
	}
	for range 20 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestCommandDiesWithTheScheduler checks that a command ends when the process that runs it is
// killed.
func TestCommandDiesWithTheScheduler(t *testing.T) {
	if fifo := os.Getenv("COMMAND_TEST_FIFO"); fifo != "" {
		script := "exec >" + fifo + "; echo ready; exec sleep 1000"
		err := mustBind(t, "command", object{"command": shell(script)})(t.Context(), newRun("j"))
		t.Fatalf("ended before it was killed: %v", err)
	}
	if runtime.GOOS != "linux" {
		t.Skip("not on this system")
	}
	f := newFamily(t)
	scheduler := exec.Command(os.Args[0], "-test.run=^TestCommandDiesWithTheScheduler$",
		"-test.timeout=60s")
	scheduler.Env = append(os.Environ(), "COMMAND_TEST_FIFO="+f.path)
	scheduler.Stdout, scheduler.Stderr = io.Discard, io.Discard
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "ready")
	if err := scheduler.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	scheduler.Wait() //nolint:errcheck // it was killed
	select {
	case line, alive := <-f.lines:
		if alive {
			t.Fatalf("grandchild wrote %q", line)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the command outlived the scheduler")
	}
}
