package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/jobstest"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

func open(t testing.TB) *sqlite.Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "holdfast.db"))
}

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
		return jobstest.Fixture{Store: s, Expire: s.Expire, Pause: s.PutPause, Pass: s.Pass}
	})
}

func TestAttemptsConformance(t *testing.T) {
	jobstest.RunAttempts(t, func(t *testing.T) (first, second jobs.Attempts) {
		s := open(t)
		return s, s
	})
}
