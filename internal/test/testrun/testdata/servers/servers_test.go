// Package servers is a test that starts servers and processes, for the tests of testrun.
package servers

import (
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

var shared *servertest.Postgres

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(p *servertest.Postgres) { shared = p }))
}

// TestServers starts servers, some of them frozen, and an orphan process that leaves its process
// group. It reports their addresses and runs until it is killed.
func TestServers(t *testing.T) {
	memcached, frozen := servertest.NewMemcached(t), servertest.NewMemcached(t)
	if err := frozen.Pause(); err != nil {
		t.Fatal(err)
	}
	own, err := servertest.StartPostgres(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Pause(); err != nil {
		t.Fatal(err)
	}
	startStray(t)
	shared.Database(t)
	if _, err := os.CreateTemp("", "file-"); err != nil {
		t.Fatal(err)
	}
	writeAddresses(t, memcached.Addr(), frozen.Addr(), own.Addr(), shared.Addr())
	select {}
}

// TestStray passes and leaves a process behind.
func TestStray(t *testing.T) {
	startStray(t)
	writeAddresses(t)
}

func TestFails(t *testing.T) { t.Error("this test always fails") }

// TestDetectorFails ends as a test does in which the race detector fails, the first time.
func TestDetectorFails(t *testing.T) {
	if _, err := os.Stat(os.Getenv("TESTRUN_READY")); err == nil {
		return
	}
	writeAddresses(t)
	println("ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346")
	os.Exit(66)
}

func TestPasses(t *testing.T) { t.Log("nobody reads this") }

// startStray starts a process whose parent ends at once.
func startStray(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 &")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
}

// writeAddresses writes a file atomically. The test of testrun waits for that file.
func writeAddresses(t *testing.T, addresses ...string) {
	text, err := json.Marshal(addresses)
	if err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("TESTRUN_READY")
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
