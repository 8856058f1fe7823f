package servertest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

func TestMissingBinaryNamesThePackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	want := "memcached is not installed. Run: sudo apt-get install memcached"
	if _, err := servertest.StartMemcached(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Debian's pgbench is a link to a program that looks at the name it is called by.
func TestBinaryPathKeepsLinks(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "memcached")
	if err := os.Symlink("/bin/sh", link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if got, err := servertest.FindBinary("memcached", "memcached"); err != nil || got != link {
		t.Errorf("got %q, %v", got, err)
	}
}

// Debian installs HAProxy in a folder that is not in every user's PATH.
func TestProgramsOutsideOfPATHAreFound(t *testing.T) {
	const where = "/usr/sbin/haproxy"
	if _, err := os.Stat(where); err != nil {
		t.Skip("there is no " + where + " here")
	}
	t.Setenv("PATH", t.TempDir())
	if got, err := servertest.FindBinary("haproxy", "haproxy"); err != nil || got != where {
		t.Errorf("got %q, %v", got, err)
	}
}
