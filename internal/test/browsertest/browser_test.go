package browsertest_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
)

const (
	childVariable = "BROWSERTEST_CHILD" // the child's action at its end
	stops         = "stop"              // it stops the browser
	waits         = "wait"              // it waits to be killed

	goneLimit = time.Minute // for the processes of a browser to end
)

var shared browsertest.Browser

func TestMain(m *testing.M) {
	end := os.Getenv(childVariable)
	code := m.Run()
	if end == waits && code == 0 {
		select {} // until the parent kills it
	}
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// TestChild runs in the child process. It opens a page and reports that to its parent.
func TestChild(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		t.Skip("runs in a child of TestBrowserEndsWithTheTests")
	}
	shared.Tab(t)
	fmt.Println("ready")
}

// The browser ends with its test binary, both after a normal exit and after each signal that may
// end a test binary.
func TestBrowserEndsWithTheTests(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a browser")
	}
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere the processes are not looked for")
	}
	t.Run("regular end", func(t *testing.T) {
		child, folder := startChild(t, stops)
		running := browserIn(t, folder)
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
		awaitGone(t, running)
		if left, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(left) > 0 {
			t.Errorf("files are left: %q, %v", left, err)
		}
	})
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			child, folder := startChild(t, waits)
			running := browserIn(t, folder)
			if len(running) < 3 {
				t.Errorf("the browser has the processes %d, want it and its children", running)
			}
			if err := child.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := child.Wait(); err == nil {
				t.Error("the child ended by itself")
			}
			awaitGone(t, running)
		})
	}
}

// The browser writes crash reports, settings and certificates to its temporary folder.
func TestHomeIsNotWrittenTo(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, home)
	}
	var browser browsertest.Browser
	browser.Tab(t)
	if err := browser.Stop(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("files in the home folder: %v, %v", left, err)
	}
}

// Until waits also in a page whose scripts are disabled, where no timer runs.
func TestUntilNeedsNoScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a browser")
	}
	tab := shared.Tab(t)
	if _, err := chromedp.Call(tab, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	browsertest.Visit(t, tab, "about:blank")
	soon := time.Now().Add(200 * time.Millisecond).UnixMilli()
	browsertest.Until(t, tab, fmt.Sprintf("Date.now() > %d", soon))
}

// startChild starts a child and returns once the child has opened a page. All files of its browser
// are in the folder.
func startChild(t *testing.T, end string) (child *exec.Cmd, folder string) {
	t.Helper()
	// Chromium creates a socket there, whose path is at most 108 bytes.
	folder, err := os.MkdirTemp("", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	child = exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=5m")
	child.Env = append(os.Environ(), childVariable+"="+end, "TMPDIR="+folder)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	lines := bufio.NewScanner(output)
	for lines.Scan() && lines.Text() != "ready" {
		messages = append(messages, lines.Text())
	}
	if lines.Text() != "ready" {
		t.Fatalf("the child ended: %v\n%s", child.Wait(), strings.Join(messages, "\n"))
	}
	return child, folder
}

// awaitGone returns when none of the processes runs.
func awaitGone(t *testing.T, running []int) {
	t.Helper()
	for deadline := time.Now().Add(goneLimit); ; time.Sleep(10 * time.Millisecond) {
		parents := parentsOfProcesses(t)
		left := slices.DeleteFunc(slices.Clone(running), func(pid int) bool {
			_, runs := parents[pid]
			return !runs
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the processes %d are left", left)
		}
	}
}

// browserIn returns the processes whose arguments name the folder, and their descendants.
func browserIn(t *testing.T, folder string) (found []int) {
	t.Helper()
	parents := parentsOfProcesses(t)
	for pid := range parents {
		arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(arguments, []byte(folder)) { // err: it has ended
			found = append(found, pid)
		}
	}
	for i := 0; i < len(found); i++ {
		for pid, parent := range parents {
			if parent == found[i] && !slices.Contains(found, pid) {
				found = append(found, pid)
			}
		}
	}
	return found
}

// parentsOfProcesses returns the running processes, each with its parent.
func parentsOfProcesses(t *testing.T) map[int]int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, file := range files {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		var pid, parent int
		var state string
		// the name in parentheses may contain anything
		rest := string(status[bytes.LastIndexByte(status, ')')+1:])
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if _, err := fmt.Sscan(string(status), &pid); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if state != "Z" { // it has ended, but its parent has not asked for its exit code
			parents[pid] = parent
		}
	}
	return parents
}

// Two tabs of one browser do not share cookies, and each has the focus.
func TestTabsAreIsolated(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<link rel=icon href=data:,><input id=field>")
	}))
	defer site.Close()
	tabs := []context.Context{shared.Tab(t), shared.Tab(t)}
	for i, tab := range tabs {
		browsertest.Visit(t, tab, site.URL)
		browsertest.Evaluate[string](t, tab, fmt.Sprintf(`document.cookie = "tab%d=yes"`, i))
		if err := chromedp.Do(tab, chromedp.Focus("#field")); err != nil {
			t.Fatal(err)
		}
	}
	for i, tab := range tabs {
		if got, want := browsertest.Evaluate[string](t, tab, "document.cookie"),
			fmt.Sprintf("tab%d=yes", i); got != want {
			t.Errorf("tab %d has the cookies %q, want %q", i, got, want)
		}
		if !browsertest.Evaluate[bool](t, tab,
			`document.hasFocus() && document.activeElement.id == "field"`) {
			t.Errorf("tab %d has not the focus", i)
		}
	}
}
