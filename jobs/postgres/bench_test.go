package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// BenchmarkStartInOnesWay starts a batch in which each stands in another's way,
// since all want one table, or each one with the next: new firings, the same
// while what they want is held, and the same in another order when it is free.
func BenchmarkStartInOnesWay(b *testing.B) {
	for _, c := range []struct {
		wants string
		of    func(i int) []string
	}{
		{"one table", func(int) []string { return []string{"orders"} }},
		{"a chain", func(i int) []string { return []string{fmt.Sprintf("t%04d", i), fmt.Sprintf("t%04d", i+1)} }},
	} {
		for _, n := range []int{1, 16, 100, 300, 1000} {
			b.Run(fmt.Sprintf("%s/runs=%d", c.wants, n), func(b *testing.B) { startInOnesWay(b, n, c.of) })
		}
	}
}

func startInOnesWay(b *testing.B, n int, wants func(i int) []string) {
	s := openAs(b, database(b), "a")
	session := uuid.New()
	if err := s.Open(b.Context(), jobs.Session{ID: session, Replica: "one", Version: "v1", TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	var took [3]time.Duration
	for b.Loop() {
		requests := make([]jobs.StartRequest, n)
		for i := range requests {
			requests[i] = request(b, fmt.Sprintf("job-%04d", i), wants(i)...)
			requests[i].Firing.Due, requests[i].WaitSince = time.Now(), time.Now()
		}
		holders := startMeasured(b, s, session, requests, &took[0])
		if again := startMeasured(b, s, session, requests, &took[1]); !slices.Equal(again, holders) {
			b.Fatalf("granted %v, then %v", holders, again)
		}
		finishAll(b, s, holders)
		requests = slices.DeleteFunc(requests, func(r jobs.StartRequest) bool {
			return slices.ContainsFunc(holders, func(f jobs.FinishRequest) bool { return f.Run == r.Run })
		})
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		next := startMeasured(b, s, session, requests, &took[2])
		if len(requests) > 0 && len(next) == 0 {
			b.Fatal("nobody was granted what is free")
		}
		if _, err := s.pool.Exec(b.Context(), "TRUNCATE holdfast.runs, holdfast.waits, holdfast.wants, holdfast.claims, holdfast.grants"); err != nil {
			b.Fatal(err)
		}
	}
	for i, what := range []string{"new", "held", "freed"} {
		b.ReportMetric(float64(took[i].Microseconds())/1000/float64(b.N), "ms-"+what)
	}
	b.ReportMetric(0, "ns/op")
}

// startMeasured starts the batch and returns the finishes of what was granted.
func startMeasured(b *testing.B, s *Store, session uuid.UUID, requests []jobs.StartRequest, took *time.Duration) (granted []jobs.FinishRequest) {
	b.Helper()
	begun := time.Now()
	results, err := s.Start(b.Context(), session, requests)
	if err != nil {
		b.Fatal(err)
	}
	*took += time.Since(begun)
	for i, r := range results {
		if r.Outcome == jobs.StartGranted {
			granted = append(granted, jobs.FinishRequest{Run: requests[i].Run, Token: r.Token, State: jobs.Succeeded})
		}
	}
	return granted
}

func finishAll(b *testing.B, s *Store, finishes []jobs.FinishRequest) {
	b.Helper()
	if _, err := s.Finish(b.Context(), finishes); err != nil {
		b.Fatal(err)
	}
}
