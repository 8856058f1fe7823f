package handlers_test

import (
	"os"
	"os/exec"
	"path/filepath"
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
