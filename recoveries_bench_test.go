package holdfast_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
)

// BenchmarkRecoveries measures the recovery of runs that were running when the connections of their
// replica were cut. Two other replicas recover them. It reports the time from the record of a run
// as lost to the start of the handler of its recovery, and the recoveries that began in each second
// from then on.
func BenchmarkRecoveries(b *testing.B) {
	for _, runs := range []int{200, 2000} {
		b.Run(fmt.Sprint("runs=", runs), func(b *testing.B) { runRecoveries(b, runs) })
	}
}

func runRecoveries(b *testing.B, runs int) {
	type recovery struct {
		key string
		at  time.Time
	}
	started, recovered := make(chan string, runs), make(chan recovery, runs)
	var lost sync.Map // the key of a lost run to the time of its record
	common := []holdfast.Option{
		holdfast.WithLog(zerolog.Nop(), nil), // the first replica logs an error for each run
		holdfast.WithJobs(holdfast.Job[struct{}]{Name: "held", OnlyTriggered: true, NoTables: true,
			Overlap: jobs.OverlapAllow, Recover: true,
			Run: func(ctx context.Context, run *jobs.Run, _ struct{}) error {
				if run.Recovery > 0 {
					recovered <- recovery{run.Key, time.Now()}
					return nil
				}
				started <- run.Key
				<-ctx.Done() // the run is lost
				return ctx.Err()
			}}),
		holdfast.WithListeners(func(_ context.Context, e jobs.Event) {
			if e.Kind == jobs.EventLost {
				lost.Store(e.Key, e.At)
			}
		}),
	}
	many := configs.Defaults()
	many.Workers, many.Admin.Listen = max(many.Workers, runs), ""
	for b.Loop() {
		c := newBenchCluster(b, func(i int) []holdfast.Option {
			if i == 0 { // the replica that accepts a trigger runs it
				return append(slices.Clone(common), holdfast.WithConfig(&many))
			}
			return common
		})
		var triggered sync.WaitGroup
		for n := range runs {
			triggered.Go(func() {
				if _, err := c.replicas[0].Trigger(b.Context(),
					holdfast.Trigger[any]{Job: "held", Key: fmt.Sprint(n)}); err != nil {
					b.Error(err)
				}
			})
		}
		triggered.Wait()
		for range runs {
			<-started
		}
		c.database.Refuse(true)
		c.database.CutAll()
		began := make([]recovery, runs)
		for i := range began {
			began[i] = <-recovered
		}
		var waits []time.Duration
		for _, r := range began {
			at, found := lost.Load(r.key)
			if !found {
				b.Fatalf("run %s: no event of its loss", r.key)
			}
			waits = append(waits, r.at.Sub(at.(time.Time)))
		}
		// the runs are recorded as lost at the same time
		b.ReportMetric(float64(runs)/slices.Max(waits).Seconds(), "runs/s")
		reportWaits(b, waits)
	}
}
