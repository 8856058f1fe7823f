package holdfast_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// BenchmarkBackfills measures backfills on three replicas of one cluster. Each backfill is of
// another job. The jobs lock no table. It reports the runs that ended in each second for backfills
// of 10,000 scheduled times in all, whose jobs do nothing and have as many runs at once as a
// backfill may have. For a backfill that has 200 runs in each second because each takes 250 ms, it
// reports the time from the creation of a run to its start.
func BenchmarkBackfills(b *testing.B) {
	b.Run("rate=200", func(b *testing.B) { runBackfills(b, 1, 2000, 50, 250*time.Millisecond) })
	for _, backfills := range []int{1, 10} {
		b.Run(fmt.Sprint("backfills=", backfills), func(b *testing.B) {
			runBackfills(b, backfills, 10_000, storage.MaxBackfillParallel, 0)
		})
	}
}

// runBackfills measures some backfills with that many scheduled times in all.
func runBackfills(b *testing.B, backfills, all, parallel int, takes time.Duration) {
	times := all / backfills // of each backfill
	begin := time.Now()
	ended := make(chan struct{}, all)
	var past []holdfast.AnyJob
	for i := range backfills {
		past = append(past, holdfast.Job[struct{}]{Name: fmt.Sprint("past-", i),
			Schedule: schedule.Every(time.Second), NoTables: true, Overlap: jobs.OverlapAllow,
			Run: func(_ context.Context, run *jobs.Run, _ struct{}) error {
				time.Sleep(takes)
				if run.ScheduledAt.Before(begin) {
					ended <- struct{}{}
				}
				return nil
			}})
	}
	delays := make(chan time.Duration, all)
	c := newBenchCluster(b, func(int) []holdfast.Option {
		return []holdfast.Option{holdfast.WithJobs(past...),
			holdfast.WithListeners(func(_ context.Context, e jobs.Event) {
				if takes > 0 && e.Kind == jobs.EventStarted && e.ScheduledAt.Before(begin) {
					delays <- e.StartDelay
				}
			})}
	})
	runs := 0
	until := begin.Add(-time.Hour).Truncate(time.Second)
	for b.Loop() {
		from := until.Add(-time.Duration(times-1) * time.Second)
		for i := range backfills {
			if _, err := c.replicas[0].Backfill(b.Context(), holdfast.Backfill{
				Job: fmt.Sprint("past-", i), From: from, To: until,
				Parallel: parallel}); err != nil {
				b.Fatal(err)
			}
		}
		for range all {
			<-ended
		}
		runs += all
		until = from.Add(-time.Second)
	}
	b.ReportMetric(float64(runs)/b.Elapsed().Seconds(), "runs/s")
	b.ReportMetric(0, "ns/op")
	if takes > 0 {
		var measured []time.Duration
		for range all {
			measured = append(measured, <-delays)
		}
		reportWaits(b, measured)
	}
}
