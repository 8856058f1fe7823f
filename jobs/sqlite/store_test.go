package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// open opens a migrated store of the test's own.
func open(t testing.TB) *sqlite.Store {
	t.Helper()
	file, err := migrated()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "holdfast.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return openAt(t, path)
}

// migrated returns the file of an empty store, because a copy is cheaper than a migration.
var migrated = sync.OnceValues(func() (file []byte, err error) {
	dir, err := os.MkdirTemp("", "holdfast-sqlite-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "holdfast.db")
	options := sqlite.Options{Exclusive: true, Log: zerolog.Nop()}
	s, err := sqlite.Open(context.Background(), path, options)
	if err != nil {
		return nil, err
	}
	s.Close()
	return os.ReadFile(path)
})

func openAt(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestConformance(t *testing.T) {
	jobstest.Run(t, func(t *testing.T) jobstest.Fixture {
		s := open(t)
		return jobstest.Fixture{Store: s, Expire: s.Expire, Pause: s.PutPause, Pass: s.Pass,
			PassEnded: s.PassEnded}
	})
}

func TestAttemptsConformance(t *testing.T) {
	jobstest.RunLoginAttempts(t, func(t *testing.T) (first, second storage.LoginAttempts) {
		s := open(t)
		return s, s
	})
}

func TestAuditWriterConformance(t *testing.T) {
	jobstest.RunAuditWriter(t, func(t *testing.T) (storage.Store, storage.AuditWriter) {
		s := open(t)
		return s, s
	})
}

func TestSignOutsConformance(t *testing.T) {
	jobstest.RunSignOuts(t, func(t *testing.T) (first, second storage.SignOuts) {
		s := open(t)
		return s, s
	})
}
