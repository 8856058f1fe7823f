package postgres

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// BenchmarkFirings starts and finishes batches of new firings of registered jobs. Each job locks
// its own name and a table of its own. The metrics are for each firing: the processor time of
// PostgreSQL's backends for the start and for the finish, and the write-ahead log of both.
func BenchmarkFirings(b *testing.B) {
	for _, n := range []int{1, 3, 10, 50, 250} {
		b.Run(fmt.Sprintf("runs=%d", n), func(b *testing.B) { benchmarkFirings(b, n) })
	}
}

func benchmarkFirings(b *testing.B, n int) {
	s := openAs(b, database(b), "a")
	session := uuid.New()
	if err := s.Open(b.Context(), storage.Session{ID: session, Replica: "one", Version: "v1",
		TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	requests, definitions := make([]storage.StartRequest, n), make([]storage.Definition, n)
	for i := range requests {
		r := request(b, fmt.Sprintf("job-%04d", i), fmt.Sprintf("t%04d", i))
		var err error
		if r.Requests, err = locking.OfJob(r.Firing.Job, r.Requests, false); err != nil {
			b.Fatal(err)
		}
		requests[i], definitions[i] = r, storage.Definition{Name: r.Firing.Job, Hash: "h"}
	}
	versions, err := s.Register(b.Context(), session, definitions)
	if err != nil {
		b.Fatal(err)
	}
	scheduledAt := time.Now().UTC().Truncate(time.Second)
	fire := func(backends []int) (start, finish time.Duration) {
		scheduledAt = scheduledAt.Add(time.Second)
		for i := range requests {
			requests[i].Run, requests[i].Firing.ScheduledAt, requests[i].WaitSince,
				requests[i].Version = uuid.Must(uuid.NewV7()), scheduledAt, time.Now(),
				versions[requests[i].Firing.Job]
		}
		before := usedBy(b, backends)
		var took time.Duration
		finishes := startMeasured(b, s, session, requests, &took)
		if len(finishes) != n {
			b.Fatalf("granted %d of %d", len(finishes), n)
		}
		between := usedBy(b, backends)
		finishAll(b, s, finishes)
		return between - before, usedBy(b, backends) - between
	}
	const warmUp = 10 // fences, prepared statements, indexes that are no longer empty
	for range warmUp {
		fire(nil)
	}
	backends, wal := backendsOf(b, s), walWritten(b, s)
	var starts, finishes time.Duration
	for b.Loop() {
		start, finish := fire(backends)
		starts, finishes = starts+start, finishes+finish
	}
	firings := float64(b.N * n)
	b.ReportMetric(float64(walWritten(b, s)-wal)/firings, "wal-B/firing")
	b.ReportMetric(float64(starts.Microseconds())/firings, "µs-start/firing")
	b.ReportMetric(float64(finishes.Microseconds())/firings, "µs-finish/firing")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSQLRun starts 50 runs in one transaction. Then each of them inserts a row with the
// handler sql, one after the other. The metric is the processor time of PostgreSQL's backends for a
// run after its start: the fenced transaction with the statement and the end of the run.
func BenchmarkSQLRun(b *testing.B) {
	s := openAs(b, database(b), "a")
	if _, err := s.pool.Exec(b.Context(), "CREATE TABLE public.rows (n int)"); err != nil {
		b.Fatal(err)
	}
	session := uuid.New()
	if err := s.Open(b.Context(), storage.Session{ID: session, Replica: "one", Version: "v1",
		TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	const n = 50
	requests, definitions := make([]storage.StartRequest, n), make([]storage.Definition, n)
	for i := range requests {
		r := request(b, fmt.Sprintf("job-%04d", i), fmt.Sprintf("t%04d", i))
		requests[i], definitions[i] = r, storage.Definition{Name: r.Firing.Job, Hash: "h"}
	}
	versions, err := s.Register(b.Context(), session, definitions)
	if err != nil {
		b.Fatal(err)
	}
	statements := []storage.Statement{{SQL: "INSERT INTO public.rows DEFAULT VALUES"}}
	scheduledAt := time.Now().UTC().Truncate(time.Second)
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	// The pool may open connections meanwhile, so their backends are looked up each time.
	usedByAll := func() time.Duration { return usedBy(b, backendsOf(b, s)) }
	fire := func() time.Duration {
		scheduledAt = scheduledAt.Add(time.Second)
		for i := range requests {
			requests[i].Run, requests[i].Firing.ScheduledAt, requests[i].WaitSince,
				requests[i].Version = uuid.Must(uuid.NewV7()), scheduledAt, time.Now(),
				versions[requests[i].Firing.Job]
		}
		var took time.Duration
		granted := startMeasured(b, s, session, requests, &took)
		if len(granted) != n {
			b.Fatalf("granted %d of %d", len(granted), n)
		}
		before := usedByAll()
		for i, g := range granted {
			run := jobstest.StoredRun(s, requests[i], g.Token)
			if _, err := s.RunStatements(ctx, run, statements); err != nil {
				b.Fatal(err)
			}
		}
		return usedByAll() - before
	}
	const warmUp = 10
	for range warmUp {
		fire()
	}
	var used time.Duration
	for b.Loop() {
		used += fire()
	}
	b.ReportMetric(float64(used.Microseconds())/float64(b.N*n), "µs-postgres/run")
	b.ReportMetric(0, "ns/op")
}

// walWritten returns how much write-ahead log the server has written, in bytes.
func walWritten(b *testing.B, s *Store) (written int64) {
	b.Helper()
	if err := s.pool.QueryRow(b.Context(), "SELECT pg_current_wal_insert_lsn() - '0/0'").
		Scan(&written); err != nil {
		b.Fatal(err)
	}
	return written
}

// backendsOf returns the process IDs of the backends of the store.
func backendsOf(b *testing.B, s *Store) []int {
	b.Helper()
	rows, err := s.pool.Query(b.Context(), "SELECT pid FROM pg_stat_activity "+
		"WHERE application_name = current_setting('application_name')")
	if err != nil {
		b.Fatal(err)
	}
	backends, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		b.Fatal(err)
	}
	return backends
}

// usedBy returns the processor time that the backends have used until now; 0 on systems without
// schedstat.
func usedBy(b *testing.B, backends []int) (used time.Duration) {
	b.Helper()
	for _, pid := range backends {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			continue
		}
		onCPU, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		used += time.Duration(onCPU)
	}
	return used
}
