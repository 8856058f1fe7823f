package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// systemd accepts the unit without a warning, and rates its sandbox.
func TestUnitOfSystemd(t *testing.T) {
	text := read(t, "systemd/holdfast.service")
	unit := filepath.Join(t.TempDir(), "holdfast.service")
	// systemd checks that the programs exist.
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write(t, unit, strings.ReplaceAll(text, "/usr/local/bin/scheduler", own))
	if output := run(t, "systemd-analyze", "systemd", "verify", "--man=no", unit); output != "" {
		t.Errorf("systemd-analyze verify: %s", output)
	}
	rating := run(t, "systemd-analyze", "systemd", "security", "--no-pager", "--offline=true", unit)
	if !regexp.MustCompile(`Overall exposure level for holdfast.service: [01]\.\d `).
		MatchString(rating) {
		t.Errorf("systemd-analyze security: %s, want an exposure below 2", rating)
	}
	for _, line := range []string{"Type=notify\n", "NotifyAccess=main\n", "WatchdogSec=",
		"ExecReload=", "KillMode=mixed\n"} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("the unit has no line %q", line)
		}
	}
}

// folder is deploy/.
const folder = "../../../deploy"

// read returns the text of a file in deploy/.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a program of a Debian package until it ends, and returns its output. The test fails if
// the program is missing or fails.
func run(t *testing.T, program, debianPackage string, args ...string) string {
	t.Helper()
	needs(t, program)
	path, err := servertest.FindBinary(program, debianPackage)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, output)
	}
	return string(output)
}
