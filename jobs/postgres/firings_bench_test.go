package postgres

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs"
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

// BenchmarkSQLRun starts 200 runs in one transaction. Each of them then inserts a row into a table
// of its own, in a transaction of its own. The metrics are for each run after its start: the
// processor time of PostgreSQL's backends, and the time by the clock. Each part includes the part
// before:
//
//   - insert: a transaction that contains only the insert
//   - fenced: the fence check is added
//   - whole: the end of the run and the reset of the session are added, as in the handler sql
//   - shared: the same, in one transaction with those of concurrent runs
func BenchmarkSQLRun(b *testing.B) {
	for _, connections := range []int{1, 40} {
		for _, part := range []struct {
			name string
			run  func(context.Context, *Store, *jobs.Run, []storage.Statement) error
		}{{"insert", insertOnly}, {"fenced", insertFenced}, {"whole", insertAndEnd},
			{"shared", insertShared}} {
			b.Run(fmt.Sprintf("connections=%d/%s", connections, part.name), func(b *testing.B) {
				benchmarkSQLRun(b, connections, part.run)
			})
		}
	}
}

func insertOnly(ctx context.Context, s *Store, _ *jobs.Run, list []storage.Statement) error {
	conn, release, err := s.work.lease(ctx)
	if err != nil {
		return err
	}
	defer release()
	markReset(conn.Conn())
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := execOne(ctx, tx, list[0])
		return err
	})
}

func insertFenced(ctx context.Context, s *Store, run *jobs.Run, list []storage.Statement) error {
	return s.inTx(ctx, run, func(tx pgx.Tx) error {
		markReset(tx.Conn())
		_, err := execOne(ctx, tx, list[0])
		return err
	})
}

func insertAndEnd(ctx context.Context, s *Store, run *jobs.Run, list []storage.Statement) error {
	_, err := s.RunStatements(ctx, run, storage.Script{Statements: list})
	return err
}

func insertShared(ctx context.Context, s *Store, run *jobs.Run, list []storage.Statement) error {
	_, err := s.RunStatements(ctx, run, storage.Script{Statements: list, Share: true})
	return err
}

func benchmarkSQLRun(b *testing.B, connections int,
	run func(context.Context, *Store, *jobs.Run, []storage.Statement) error) {
	const n = 200
	s, err := Open(b.Context(), Options{URL: database(b), Log: zerolog.Nop(),
		WorkConnections: connections})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	session := uuid.New()
	if err := s.Open(b.Context(), storage.Session{ID: session, Replica: "one", Version: "v1",
		TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	requests, definitions := make([]storage.StartRequest, n), make([]storage.Definition, n)
	inserts := make([][]storage.Statement, n)
	for i := range requests {
		table := fmt.Sprintf("t%04d", i)
		if _, err := s.pool.Exec(b.Context(), "CREATE TABLE public."+table+" (n int)"); err != nil {
			b.Fatal(err)
		}
		r := request(b, "job-"+table, table)
		requests[i], definitions[i] = r, storage.Definition{Name: r.Firing.Job, Hash: "h"}
		inserts[i] = []storage.Statement{{SQL: "INSERT INTO public." + table + " VALUES (1)"}}
	}
	versions, err := s.Register(b.Context(), session, definitions)
	if err != nil {
		b.Fatal(err)
	}
	scheduledAt := time.Now().UTC().Truncate(time.Second)
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	// The pool may open connections meanwhile, so their backends are looked up each time.
	usedByAll := func() time.Duration { return usedBy(b, backendsOf(b, s)) }
	fire := func() (server, clock time.Duration) {
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
		before, began := usedByAll(), time.Now()
		next := make(chan int)
		var workers sync.WaitGroup
		for range connections {
			workers.Go(func() {
				for i := range next {
					if err := run(ctx, s, jobstest.StoredRun(s, requests[i], granted[i].Token),
						inserts[i]); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for i := range n {
			next <- i
		}
		close(next)
		workers.Wait()
		clock, server = time.Since(began), usedByAll()-before
		if _, err := s.Finish(b.Context(), granted); err != nil { // of the parts that end no run
			b.Fatal(err)
		}
		return server, clock
	}
	const warmUp = 10
	for range warmUp {
		fire()
	}
	var server, clock time.Duration
	for b.Loop() {
		s, c := fire()
		server, clock = server+s, clock+c
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N*n) }
	b.ReportMetric(each(server), "µs-postgres/run")
	b.ReportMetric(each(clock), "µs/run")
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
