package handlers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestCommandDoesNotWaitForZombies leaves a zombie in the group: its parent has left the group, and
// does not wait for it.
func TestCommandDoesNotWaitForZombies(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	f := newFamily(t)
	folder := t.TempDir()
	goOn, end := filepath.Join(folder, "go"), filepath.Join(folder, "end")
	for _, name := range []string{goOn, end} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parent := "sh -c ': & exec setsid sh -c \"echo ready; exec cat <" + end + "\"' >" + f.path +
		" 2>&1"
	run, ended := newRun("j"), make(chan error, 1)
	handle := mustBind(t, "command",
		object{"command": shell(parent + " & read line <" + goOn)})
	go func() { ended <- handle(t.Context(), run) }()
	f.expect(t, "ready")
	if err := os.WriteFile(goOn, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	wantOutput(t, run, "") // no process was left behind
	if err := os.WriteFile(end, nil, 0); err != nil {
		t.Fatal(err)
	}
	f.expectDead(t)
}

// TestCommandDoesNotEndProcessesThatLeftTheGroup checks that the output of the run names a process
// outside of the group that holds the output.
func TestCommandDoesNotEndProcessesThatLeftTheGroup(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	f := newFamily(t)
	folder := t.TempDir()
	goOn, end := filepath.Join(folder, "go"), filepath.Join(folder, "end")
	for _, name := range []string{goOn, end} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The process holds stderr of the command.
	left := "setsid sh -c 'echo ready; read line <" + end + "; echo bye' >" + f.path
	run, ended := newRun("j"), make(chan error, 1)
	handle := mustBind(t, "command",
		object{"command": shell(left + " & read line <" + goOn + "; echo done")})
	go func() { ended <- handle(t.Context(), run) }()
	f.expect(t, "ready")
	if err := os.WriteFile(goOn, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	wantOutput(t, run, "done\n[a process that left the group of the command still holds its "+
		"output and was not ended]\n")
	if err := os.WriteFile(end, []byte("end\n"), 0); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "bye")
	f.expectDead(t)
}

// TestCommandGivesTheGraceToThreads leaves a process behind whose first thread has exited. The
// system shows it as a zombie.
func TestCommandGivesTheGraceToThreads(t *testing.T) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip(err)
	}
	f := newFamily(t)
	program, goOn := filepath.Join(t.TempDir(), "threads"), f.path+".go"
	compile := exec.Command(compiler, "-pthread", "-x", "c", "-o", program, "-")
	compile.Stdin = strings.NewReader(threads)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Skipf("compile: %v\n%s", err, out)
	}
	if err := syscall.Mkfifo(goOn, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := start(t.Context(), t, object{"command": shell(
		program + " >" + f.path + " 2>/dev/null & read line <" + goOn)})
	f.expect(t, "ready")
	if err := os.WriteFile(goOn, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "bye")
	f.expectDead(t)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// threads writes "ready" when its first thread has exited, and "bye" when it gets SIGTERM.
const threads = `
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

static pthread_t first;
static sigset_t signals;

static void *work(void *none) {
	int found;
	pthread_join(first, NULL);
	puts("ready");
	fflush(stdout);
	sigwait(&signals, &found);
	puts("bye");
	return none;
}

int main(void) {
	pthread_t second;
	first = pthread_self();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	pthread_create(&second, NULL, work, NULL);
	pthread_exit(NULL);
}
`
