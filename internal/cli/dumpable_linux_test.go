package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestCommandsDoNotReadTheEnvironment starts a process like a replica. That process starts one like
// a command job of the same user, which tries to read the replica's environment variables. Both run
// as another user, because root may read everything.
func TestCommandsDoNotReadTheEnvironment(t *testing.T) {
	const role = "HOLDFAST_TEST_HIDES"
	if hides := os.Getenv(role); hides != "" {
		if hides == "yes" {
			if err := hideMemory(); err != nil {
				t.Fatal(err)
			}
		}
		child := exec.Command("sh", "-c", "cat /proc/$PPID/environ; cat /proc/$PPID/maps")
		child.Env = []string{"PATH=" + os.Getenv("PATH")}
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		_ = child.Run() // fails if it may not read
		return
	}
	program := copyOfTest(t)
	for _, hides := range []string{"no", "yes"} {
		replica := exec.Command(program, "-test.run=^TestCommandsDoNotReadTheEnvironment$")
		replica.Env = append(os.Environ(), role+"="+hides, "DATABASE_PASSWORD=hunter2")
		if os.Geteuid() == 0 {
			replica.SysProcAttr = &syscall.SysProcAttr{
				Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		output, err := replica.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		readable := strings.Contains(string(output), "hunter2")
		denied := strings.Count(string(output), "Permission denied")
		if hides == "no" && (!readable || denied > 0) {
			t.Errorf("not hidden: the command read nothing, so this test shows nothing: %s", output)
		}
		if hides == "yes" && (readable || denied != 2) {
			t.Errorf("hidden: the command read %s", output)
		}
	}
}

// copyOfTest copies the test binary to a path where every user may run it.
func copyOfTest(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "hide-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "replica")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
