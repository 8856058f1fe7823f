package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// In SQLite, a run inside a transaction has the only writer of the file. So commands beside its
// process cannot act on it. Their errors name --server.
func TestActionsOnARunInsideATransactionOfSQLite(t *testing.T) {
	dir := t.TempDir()
	config, file := filepath.Join(dir, "holdfast.yaml"), filepath.Join(dir, "holdfast.db")
	if err := os.WriteFile(config, fmt.Appendf(nil, "database: {url: 'sqlite://%s'}\n", file),
		0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), file, sqlite.Options{Exclusive: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	table, err := locking.Table("totals", "public")
	if err != nil {
		t.Fatal(err)
	}
	session := storage.Session{ID: uuid.New(), Replica: "web-1", Version: "v1", TTL: time.Hour}
	if err := s.Open(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	start := storage.StartRequest{Run: uuid.New(), Attempt: 1, WaitSince: time.Now(),
		Firing:   storage.Firing{Job: "rollup", ScheduledAt: time.Now()},
		Requests: []locking.Request{{Resource: table, Mode: locking.Exclusive}}}
	granted, err := s.Start(t.Context(), session.ID, []storage.StartRequest{start})
	if err != nil || granted[0].Outcome != storage.StartGranted {
		t.Fatalf("start %+v (%v)", granted, err)
	}
	run := jobstest.StoredRun(s, start, granted[0].Token)
	if err := s.InTx(t.Context(), run, func(jobs.Tx) error {
		t.Run("actions", func(t *testing.T) {
			for _, command := range []string{"cancel " + run.ID.String(),
				"release public/totals --end-transaction"} {
				t.Run(command, func(t *testing.T) {
					t.Parallel() // each waits for the file
					got := perform(t, nil, append(strings.Fields(command), "-c", config)...)
					if got.code != 1 || !strings.Contains(got.err, "inside a transaction") ||
						!strings.Contains(got.err, "--server") {
						t.Errorf("%+v, want an error that names --server", got)
					}
				})
			}
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
