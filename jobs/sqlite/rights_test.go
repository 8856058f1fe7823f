package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

// TestFilesBelongToTheirOwner checks the permissions of the database files, which contain params,
// outputs and password hashes.
func TestFilesBelongToTheirOwner(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs the rights of Unix")
	}
	path := filepath.Join(t.TempDir(), "holdfast.db")
	s := openAt(t, path)
	startFinish(t, s, openSession(t, s), 1)
	found, err := filepath.Glob(path + "*")
	if err != nil || len(found) < 3 {
		t.Fatalf("files %q, %v", found, err)
	}
	for _, file := range found {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if rights := info.Mode().Perm(); rights != 0o600 {
			t.Errorf("%s has the mode %o, want 600", file, rights)
		}
	}
}

func TestWiderFilePermissionsAreLogged(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs the rights of Unix")
	}
	path := filepath.Join(t.TempDir(), "holdfast.db")
	openAt(t, path).Close()
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: true, 0o644: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		s, err := sqlite.Open(t.Context(), path,
			sqlite.Options{Exclusive: true, Log: zerolog.New(&log)})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if got := strings.Contains(log.String(), "open to other users"); got != want {
			t.Errorf("mode %o: %s", mode, &log)
		}
	}
}
