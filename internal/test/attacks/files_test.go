package attacks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
)

// TestRow09 starts a replica with the widest umask.
func TestRow09(t *testing.T) {
	a := begin(t, 9)
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	g := a.start(plan{wrap: []string{sh, "-c", `umask 000; exec "$0" "$@"`},
		jobs: "  - {name: a, handler: sql, params: {statement: SELECT 1}}\n"})
	g.trigger("a", request{})
	files, err := filepath.Glob(filepath.Join(filepath.Dir(g.config), "holdfast.db*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			a.Errorf("%s has the mode %o", file, mode)
		}
	}
	if err := os.Chmod(files[0], 0o644); err != nil {
		t.Fatal(err)
	}
	output, code := g.command("doctor")
	if code != 1 || !strings.Contains(output, "chmod 600") {
		a.Errorf("doctor of a file with 644: %d %s", code, output)
	}
	a.report("%d files of SQLite under umask 000: all 0600; doctor warns of 0644", len(files))
}

// TestRow11 reads the environment of a replica in a command job. Root may read everything, so the
// replica runs as another user.
func TestRow11(t *testing.T) {
	a := begin(t, 11)
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("needs /proc of Linux")
	}
	const job = "  - {name: spy, handler: command, params: {command: [sh, -c, 'cat " +
		"/proc/$PPID/environ /proc/$PPID/maps /proc/$PPID/mem 2>&1 | tr -d \"\\000\" | head -c " +
		"4000; env']}}\n"
	p := plan{jobs: job, env: []string{"DATABASE_PASSWORD=" + secret}}
	if os.Geteuid() == 0 {
		p.unprivileged = true
	}
	g := a.start(p)
	run := g.trigger("spy", request{})
	a.hides("the output of the command", run.Output)
	denied := strings.Count(run.Output, "Permission denied")
	if run.State != jobs.Succeeded || denied != 3 {
		a.Errorf("the command: %s, %s", run.State, run.Output)
	}
	a.report("a command job reads environ, maps and mem of its replica: %d times permission "+
		"denied; its own environment has no variable of the replica", denied)
}
