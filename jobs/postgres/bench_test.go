package postgres

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// BenchmarkStartOfConflictingFirings starts a batch of firings that all want one table, or of which
// each conflicts with the next. It measures new firings, the same firings while their tables are
// held, and the same firings in another order when the tables are free.
func BenchmarkStartOfConflictingFirings(b *testing.B) {
	for _, c := range []struct {
		wants string
		of    func(i int) []string
	}{
		{"one table", func(int) []string { return []string{"orders"} }},
		{"a chain", func(i int) []string {
			return []string{fmt.Sprintf("t%04d", i), fmt.Sprintf("t%04d", i+1)}
		}},
	} {
		for _, n := range []int{1, 16, 100, 300, 1000} {
			b.Run(fmt.Sprintf("%s/runs=%d", c.wants, n), func(b *testing.B) {
				startInOnesWay(b, n, c.of)
			})
		}
	}
}

func startInOnesWay(b *testing.B, n int, wants func(i int) []string) {
	s := openAs(b, database(b), "a")
	session := uuid.New()
	if err := s.Open(b.Context(),
		storage.Session{ID: session, Replica: "one", Version: "v1", TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	var took [3]time.Duration
	for b.Loop() {
		requests := make([]storage.StartRequest, n)
		for i := range requests {
			requests[i] = request(b, fmt.Sprintf("job-%04d", i), wants(i)...)
			requests[i].Firing.ScheduledAt, requests[i].WaitSince = time.Now(), time.Now()
		}
		holders := startMeasured(b, s, session, requests, &took[0])
		for i, r := range requests {
			requests[i] = again(r)
		}
		if held := startMeasured(b, s, session, requests, &took[1]); !reflect.DeepEqual(held,
			holders) {
			b.Fatalf("granted %v, then %v", holders, held)
		}
		finishAll(b, s, holders)
		requests = slices.DeleteFunc(requests, func(r storage.StartRequest) bool {
			return slices.ContainsFunc(holders, func(f storage.FinishRequest) bool {
				return f.Run == r.Run
			})
		})
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(requests), func(i, j int) {
			requests[i], requests[j] = requests[j], requests[i]
		})
		next := startMeasured(b, s, session, requests, &took[2])
		if len(requests) > 0 && len(next) == 0 {
			b.Fatal("grants of a free name: got none, want one")
		}
		if _, err := s.pool.Exec(b.Context(), "TRUNCATE holdfast.runs, holdfast.waits, "+
			"holdfast.wants, holdfast.claims, holdfast.grants"); err != nil {
			b.Fatal(err)
		}
	}
	for i, what := range []string{"new", "held", "freed"} {
		b.ReportMetric(float64(took[i].Microseconds())/1000/float64(b.N), "ms-"+what)
	}
	b.ReportMetric(0, "ns/op")
}

// startMeasured starts the batch and returns the finishes of the granted runs.
func startMeasured(b *testing.B, s *Store, session uuid.UUID, requests []storage.StartRequest,
	took *time.Duration) (granted []storage.FinishRequest) {
	b.Helper()
	start := time.Now()
	results, err := jobstest.StartDecided(b.Context(), s, session, requests)
	if err != nil {
		b.Fatal(err)
	}
	*took += time.Since(start)
	for i, r := range results {
		if r.Outcome == storage.StartGranted {
			granted = append(granted, storage.FinishRequest{Run: requests[i].Run, Token: r.Token,
				State: jobs.Succeeded})
		}
	}
	return granted
}

func finishAll(b *testing.B, s *Store, finishes []storage.FinishRequest) {
	b.Helper()
	if _, err := s.Finish(b.Context(), finishes); err != nil {
		b.Fatal(err)
	}
}

// longHistory is a million runs of 200 jobs on three replicas. Most succeeded, a few wait or run,
// and a few belong to a replica of long ago.
const longHistory = `
INSERT INTO holdfast.runs (id, job, scheduled_at, attempt, state, session, replica, token,
    created_at, started_at, finished_at, reason)
SELECT gen_random_uuid(), 'job-' || lpad((n % 200)::text, 3, '0'), t, 1, state, gen_random_uuid(),
    CASE WHEN n < 500 THEN 'long gone' ELSE 'replica-' || n % 3 END,
    n, t, t, CASE WHEN state NOT IN ('waiting', 'running') THEN t + interval '1 second' END,
        CASE WHEN state = 'succeeded' THEN '' ELSE 'why' END
FROM (
    SELECT n, timestamptz '2026-01-01' + n * interval '1 second' AS t, CASE
        WHEN n > 999950 THEN 'waiting' WHEN n > 999920 THEN 'running' WHEN n % 100000 = 7
            THEN 'timed_out' WHEN n % 50000 = 9 THEN 'cancelled'
        WHEN n % 10000 = 1 THEN 'lost' WHEN n < 20 THEN 'missed' WHEN n % 200 = 3 THEN 'failed'
            WHEN n % 50 = 5 THEN 'skipped' ELSE 'succeeded' END AS state
    FROM generate_series(1, 1000000) n) history;
INSERT INTO holdfast.waits (run, session, since) SELECT id, session, created_at FROM holdfast.runs
    WHERE state = 'waiting';
INSERT INTO holdfast.claims (token, run, session, granted_at) SELECT token, id, session, created_at
    FROM holdfast.runs WHERE state = 'running'`

// pages are the queries of the admin page and the command line on the history.
var pages = []struct {
	name   string
	filter storage.RunFilter
}{
	{"all", storage.RunFilter{}},
	{"job", storage.RunFilter{Job: "job-007"}},
	{"job, unknown", storage.RunFilter{Job: "nobody"}},
	{"waiting", storage.RunFilter{States: []jobs.State{jobs.Waiting}}},
	{"running", storage.RunFilter{States: []jobs.State{jobs.Running}}},
	{"succeeded", storage.RunFilter{States: []jobs.State{jobs.Succeeded}}},
	{"failed", storage.RunFilter{States: []jobs.State{jobs.Failed}}},
	{"timed out, ten", storage.RunFilter{States: []jobs.State{jobs.TimedOut}}},
	{"missed, long ago", storage.RunFilter{States: []jobs.State{jobs.Missed}}},
	{"troubled", storage.RunFilter{States: []jobs.State{jobs.Failed, jobs.TimedOut, jobs.Cancelled,
		jobs.Lost, jobs.Skipped, jobs.Missed}}},
	{"final", storage.RunFilter{States: jobs.States()[2:]}},
	{"replica", storage.RunFilter{Replica: "replica-1"}},
	{"replica, long gone", storage.RunFilter{Replica: "long gone"}},
	{"replica, unknown", storage.RunFilter{Replica: "nobody"}},
	{"job and failed", storage.RunFilter{Job: "job-003", States: []jobs.State{jobs.Failed}}},
	{"replica and failed", storage.RunFilter{Replica: "replica-1", States: []jobs.State{jobs.Failed}}},
	{"job and replica", storage.RunFilter{Job: "job-007", Replica: "replica-1"}},
}

// BenchmarkPagesOfALongHistory reads pages of 100 runs by each filter: the first page, and one in
// the middle.
func BenchmarkPagesOfALongHistory(b *testing.B) {
	s := openAs(b, database(b), "a")
	for _, statement := range []string{longHistory, "VACUUM ANALYZE"} {
		if _, err := s.pool.Exec(b.Context(), statement,
			pgx.QueryExecModeSimpleProtocol); err != nil {
			b.Fatal(err)
		}
	}
	middle := &storage.RunCursor{CreatedAt: time.Date(2026, 1, 1, 0, 0, 500_000, 0, time.UTC)}
	for _, page := range pages {
		for _, before := range []*storage.RunCursor{nil, middle} {
			name := page.name
			if before != nil {
				name += ", from the middle"
			}
			b.Run(name, func(b *testing.B) {
				filter, runs := page.filter, 0
				filter.Before = before
				for b.Loop() {
					records, err := s.Runs(b.Context(), filter)
					if err != nil {
						b.Fatal(err)
					}
					runs = len(records)
				}
				b.ReportMetric(float64(runs), "runs")
			})
		}
	}
}

// BenchmarkRunsWritten measures how long it takes to write runs, by final state, with the size of
// the write-ahead log and the share of heap-only updates.
func BenchmarkRunsWritten(b *testing.B) {
	for _, state := range []jobs.State{jobs.Succeeded, jobs.Failed, jobs.Skipped} {
		b.Run(string(state), func(b *testing.B) {
			s := openAs(b, database(b), "a")
			session := uuid.New()
			if err := s.Open(b.Context(),
				storage.Session{ID: session, Replica: "one", Version: "v1",
					TTL: time.Hour}); err != nil {
				b.Fatal(err)
			}
			requests := make([]storage.StartRequest, 100)
			for i := range requests {
				requests[i] = request(b, fmt.Sprintf("job-%04d", i), fmt.Sprintf("t%04d", i))
			}
			var before, ended int64
			wal := func(at *int64) {
				if err := s.pool.QueryRow(b.Context(),
					"SELECT pg_current_wal_insert_lsn() - '0/0'").Scan(at); err != nil {
					b.Fatal(err)
				}
			}
			writeAll(b, s, session, requests, state) // the fences are there now
			wal(&before)
			for b.Loop() {
				writeAll(b, s, session, requests, state)
			}
			wal(&ended)
			runs := float64(b.N * len(requests))
			b.ReportMetric(float64(ended-before)/runs, "wal-B/run")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/runs, "µs/run")
		})
	}
}

// writeAll starts and finishes new runs of the requests' jobs, or notes them.
func writeAll(b *testing.B, s *Store, session uuid.UUID, requests []storage.StartRequest,
	state jobs.State) {
	b.Helper()
	scheduledAt := time.Now().Truncate(time.Microsecond)
	notes := make([]storage.Note, len(requests))
	for i := range requests {
		requests[i].Run, requests[i].Firing.ScheduledAt, requests[i].WaitSince =
			uuid.Must(uuid.NewV7()), scheduledAt, scheduledAt
		notes[i] = storage.Note{Run: requests[i].Run, Firing: requests[i].Firing, State: state,
			Reason: reasons.LockHeld, WaitSince: scheduledAt}
	}
	if state == jobs.Skipped {
		if _, err := s.Note(b.Context(), session, notes); err != nil {
			b.Fatal(err)
		}
		return
	}
	var took time.Duration
	finishes := startMeasured(b, s, session, requests, &took)
	for i := range finishes {
		finishes[i].State = state
	}
	finishAll(b, s, finishes)
}
