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

// BenchmarkBackfills measures backfills of 10,000 scheduled times in all on three replicas of one
// cluster, which this process runs with PostgreSQL and memcached. Each backfill is of another job,
// and has as many runs at once as a backfill may have. It reports the runs that ended in each
// second. The jobs do nothing and lock no table.
func BenchmarkBackfills(b *testing.B) {
	for _, backfills := range []int{1, 10} {
		b.Run(fmt.Sprint("backfills=", backfills), func(b *testing.B) {
			runBackfills(b, backfills)
		})
	}
}

func runBackfills(b *testing.B, backfills int) {
	const all = 10_000
	times := all / backfills // of each backfill
	begin := time.Now()
	ended := make(chan struct{}, all)
	var past []holdfast.AnyJob
	for i := range backfills {
		past = append(past, holdfast.Job[struct{}]{Name: fmt.Sprint("past-", i),
			Schedule: schedule.Every(time.Second), NoTables: true, Overlap: jobs.OverlapAllow,
			Run: func(_ context.Context, run *jobs.Run, _ struct{}) error {
				if run.ScheduledAt.Before(begin) {
					ended <- struct{}{}
				}
				return nil
			}})
	}
	c := newTriggerCluster(b, past...)
	runs := 0
	until := begin.Add(-time.Hour).Truncate(time.Second)
	for b.Loop() {
		from := until.Add(-time.Duration(times-1) * time.Second)
		for i := range backfills {
			if _, err := c.replicas[0].Backfill(b.Context(), holdfast.Backfill{
				Job: fmt.Sprint("past-", i), From: from, To: until,
				Parallel: storage.MaxBackfillParallel}); err != nil {
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
}
