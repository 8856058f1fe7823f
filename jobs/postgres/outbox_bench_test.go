package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// BenchmarkFinishWithWebhooks measures how much the triggers for webhooks add to the end of a run:
// for a job without webhooks, for a job with one, and without the triggers.
func BenchmarkFinishWithWebhooks(b *testing.B) {
	for _, hooks := range []string{"no triggers", "none", "one"} {
		for _, batch := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/runs=%d", hooks, batch), func(b *testing.B) {
				finishHooked(b, hooks, batch)
			})
		}
	}
}

func finishHooked(b *testing.B, hooks string, batch int) {
	s := openAs(b, database(b), "a")
	ctx, session := b.Context(), uuid.New()
	if err := s.Open(ctx, storage.Session{ID: session, Replica: "one", Version: "v1",
		TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	d := storage.Definition{Name: "job", Hash: "h"}
	switch hooks {
	case "one":
		d.Hooks = []jobs.Hook{{Webhook: "w", State: jobs.Succeeded}}
	case "no triggers":
		if _, err := s.pool.Exec(ctx, "DROP TRIGGER runs_changed ON holdfast.runs; DROP TRIGGER "+
			"runs_recorded ON holdfast.runs"); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := s.Register(ctx, session, []storage.Definition{d}); err != nil {
		b.Fatal(err)
	}
	var took time.Duration
	n := 0
	for b.Loop() {
		requests := make([]storage.StartRequest, batch)
		for i := range requests {
			n++
			requests[i] = storage.StartRequest{Run: uuid.New(),
				Firing:    storage.Firing{Job: "job", ScheduledAt: time.UnixMicro(int64(n))},
				Attempt:   1,
				WaitSince: time.Now()}
		}
		results, err := s.Start(ctx, session, requests)
		if err != nil {
			b.Fatal(err)
		}
		finishes := make([]storage.FinishRequest, batch)
		for i, r := range results {
			finishes[i] = storage.FinishRequest{Run: requests[i].Run, Token: r.Token,
				State: jobs.Succeeded}
		}
		start := time.Now()
		finishAll(b, s, finishes)
		took += time.Since(start)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N*batch), "us-a-run")
	b.ReportMetric(0, "ns/op")
}
