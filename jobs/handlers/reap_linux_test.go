package handlers

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestGoneGroupReservesItsID checks that the leader is reaped only after the last look at its
// group. Until then, no other group can have its id, and get a signal that is meant for this one.
func TestGoneGroupReservesItsID(t *testing.T) {
	g, err := startGroup(exec.Command("true"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !g.awaitGone(t.Context(), time.Minute) {
		t.Error("group whose only process has exited: it lives, want that it is gone")
	}
	if err := unix.Waitid(unix.P_PID, g.cmd.Process.Pid, nil,
		unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil); err != nil {
		t.Errorf("leader of a group that is gone: found %v, want that it is not reaped", err)
	}
	if err := g.reap(); err != nil {
		t.Error(err)
	}
}
