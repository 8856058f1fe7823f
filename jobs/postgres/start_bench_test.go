package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// BenchmarkStart starts and finishes batches without conflicts, like most firings.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{1, 16, 100, 1000} {
		b.Run(fmt.Sprintf("runs=%d", n), func(b *testing.B) { benchmarkStart(b, n, true) })
		b.Run(fmt.Sprintf("runs=%d/again", n), func(b *testing.B) { benchmarkStart(b, n, false) })
	}
}

func benchmarkStart(b *testing.B, n int, isNew bool) {
	s := openAs(b, database(b), "a")
	session := uuid.New()
	if err := s.Open(b.Context(),
		storage.Session{ID: session, Replica: "one", Version: "v1",
			TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	var took time.Duration
	for b.Loop() {
		requests := make([]storage.StartRequest, n)
		for i := range requests {
			requests[i] = request(b, fmt.Sprintf("job-%04d", i), fmt.Sprintf("t%04d", i))
			requests[i].New = isNew
			requests[i].Firing.ScheduledAt, requests[i].WaitSince = time.Now(), time.Now()
		}
		granted := startMeasured(b, s, session, requests, &took)
		if len(granted) != n {
			b.Fatalf("granted %d of %d", len(granted), n)
		}
		finishAll(b, s, granted)
	}
	b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "ms/start")
	b.ReportMetric(0, "ns/op")
}
