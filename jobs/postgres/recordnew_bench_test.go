package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// BenchmarkSkip records batches of skipped firings that were blocked by a run: new firings, and
// firings that the store is told to look up first. The metric is the processor time of PostgreSQL.
func BenchmarkSkip(b *testing.B) {
	for _, n := range []int{1, 20, 250} {
		b.Run(fmt.Sprintf("firings=%d/new", n), func(b *testing.B) { benchmarkSkip(b, n, true) })
		b.Run(fmt.Sprintf("firings=%d/known", n), func(b *testing.B) { benchmarkSkip(b, n, false) })
	}
}

func benchmarkSkip(b *testing.B, n int, isNew bool) {
	s := openAs(b, database(b), "a")
	session := uuid.New()
	if err := s.Open(b.Context(), storage.Session{ID: session, Replica: "one", Version: "v1",
		TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	blocker := &jobs.Blocker{Resource: "s/t",
		Holder: locking.Owner{Replica: "one", Job: "holder", Run: uuid.NewString()}}
	before := processorTime(b, s)
	for b.Loop() {
		requests := make([]storage.Note, n)
		for i := range requests {
			r := request(b, fmt.Sprintf("job-%04d", i), "orders")
			r.Firing.ScheduledAt, r.WaitSince = time.Now(), time.Now()
			note := skipOf(r)
			note.New, note.Blocker, note.Detail = isNew, blocker, "held by job holder"
			requests[i] = note
		}
		if _, err := s.Note(b.Context(), session, requests); err != nil {
			b.Fatal(err)
		}
	}
	used := processorTime(b, s) - before
	b.ReportMetric(float64(used.Microseconds())/float64(b.N*n), "µs-postgres/firing")
	b.ReportMetric(0, "ns/op")
}

// processorTime returns the processor time that the backends of the store have used until now; 0
// on systems without schedstat.
func processorTime(b *testing.B, s *Store) time.Duration {
	b.Helper()
	return usedBy(b, backendsOf(b, s))
}
