package holdfast_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// BenchmarkDependents measures jobs that run after others. For 200 pairs of a job that fires every
// second, at a time within the second of its own, and a job after it, it reports the time from the
// end of the first handler to the start of the second. For 2,000 jobs after one job, which all
// start at once, it reports the same time, and the runs of dependents in each second.
func BenchmarkDependents(b *testing.B) {
	b.Run("rate=200", func(b *testing.B) { runDependents(b, 200, 1, time.Second, 10) })
	b.Run("at-once=2000", func(b *testing.B) { runDependents(b, 1, 2000, 5*time.Second, 4) })
}

// runDependents measures dependencies with some dependents each, which fire in each interval.
func runDependents(b *testing.B, dependencies, each int, interval time.Duration, firings int) {
	var succeeded sync.Map // the dependency and the scheduled time to the end of the handler
	waits := make(chan time.Duration, 1<<20)
	jitter := time.Duration(0)
	if dependencies > 1 {
		jitter = interval * 9 / 10
	}
	type firing struct {
		dependency string
		at         int64
	}
	var all []holdfast.AnyJob
	for i := range dependencies {
		dependency := fmt.Sprint("before-", i)
		all = append(all, holdfast.Job[struct{}]{Name: dependency, NoTables: true,
			Schedule: schedule.Every(interval), Jitter: jitter,
			Run: func(_ context.Context, run *jobs.Run, _ struct{}) error {
				succeeded.Store(firing{dependency, run.ScheduledAt.UnixNano()}, time.Now())
				return nil
			}})
		for n := range each {
			all = append(all, holdfast.Job[struct{}]{Name: fmt.Sprintf("after-%d-%d", i, n),
				Schedule: schedule.After(dependency), NoTables: true,
				Run: func(_ context.Context, run *jobs.Run, _ struct{}) error {
					end, _ := succeeded.Load(firing{dependency, run.ScheduledAt.UnixNano()})
					waits <- time.Since(end.(time.Time))
					return nil
				}})
		}
	}
	newBenchCluster(b, func(int) []holdfast.Option {
		return []holdfast.Option{holdfast.WithJobs(all...)}
	})
	perFiring := dependencies * each
	for range perFiring {
		<-waits // the first firing finds caches and statistics that are empty
	}
	for b.Loop() {
		var measured []time.Duration
		var busy time.Duration
		for range firings {
			longest := time.Duration(0)
			for range perFiring {
				wait := <-waits
				measured, longest = append(measured, wait), max(longest, wait)
			}
			busy += longest
		}
		if dependencies == 1 {
			b.ReportMetric(float64(len(measured))/busy.Seconds(), "runs/s")
		}
		reportWaits(b, measured)
	}
}
