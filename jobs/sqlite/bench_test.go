package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// BenchmarkStartFinish starts and finishes a batch of runs, each with a table and its job's own
// name.
func BenchmarkStartFinish(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("runs=%d", n), func(b *testing.B) {
			s := open(b)
			session := openSession(b, s)
			for b.Loop() {
				startFinish(b, s, session, n)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/run")
		})
	}
}

// BenchmarkStartBeside starts and finishes one run beside 1,000 grants.
func BenchmarkStartBeside(b *testing.B) {
	s := open(b)
	session := openSession(b, s)
	if _, err := s.Start(b.Context(), session, batch(b, 1000)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		startFinish(b, s, session, 1)
	}
}

func openSession(b testing.TB, s *sqlite.Store) uuid.UUID {
	b.Helper()
	id := uuid.New()
	if err := s.Open(b.Context(),
		storage.Session{ID: id, Replica: "one", Version: "v1", TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	return id
}

func startFinish(b testing.TB, s *sqlite.Store, session uuid.UUID, n int) {
	b.Helper()
	requests := batch(b, n)
	results, err := s.Start(b.Context(), session, requests)
	if err != nil {
		b.Fatal(err)
	}
	finishes := make([]storage.FinishRequest, n)
	for i, r := range results {
		if r.Outcome != storage.StartGranted {
			b.Fatalf("start %d: %+v", i, r)
		}
		finishes[i] = storage.FinishRequest{Run: requests[i].Run, Token: r.Token,
			State: jobs.Succeeded}
	}
	if _, err := s.Finish(b.Context(), finishes); err != nil {
		b.Fatal(err)
	}
}

// batch requests n runs of new firings.
func batch(b testing.TB, n int) []storage.StartRequest {
	b.Helper()
	scheduledAt := time.Now()
	requests := make([]storage.StartRequest, n)
	for i := range requests {
		name := fmt.Sprintf("job-%s", uuid.NewString()[:13])
		own, err := locking.Job(name)
		if err != nil {
			b.Fatal(err)
		}
		written, err := locking.Table(fmt.Sprintf("%q", name), "public")
		if err != nil {
			b.Fatal(err)
		}
		requests[i] = storage.StartRequest{
			Run: uuid.New(), Firing: storage.Firing{Job: name, ScheduledAt: scheduledAt},
			Attempt:   1,
			WaitSince: scheduledAt,
			Requests: []locking.Request{{Resource: own, Mode: locking.Exclusive},
				{Resource: written, Mode: locking.Exclusive}},
		}
	}
	return requests
}
