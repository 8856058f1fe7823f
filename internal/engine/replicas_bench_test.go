package engine

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// BenchmarkReplicas measures how the processor time of a firing grows with the replicas: 1,000 jobs
// every second, for a minute, with an in-memory store and in-memory advisory locks. It takes four
// minutes.
//
// The garbage collector is off. In one process, it would mark the jobs of all replicas each time,
// but each replica of a cluster has a collector of its own.
func BenchmarkReplicas(b *testing.B) {
	const (
		number  = 1000
		warmUp  = 15 * time.Second // the replicas rank each other, and run each job
		measure = time.Minute
	)
	table := make([]jobs.Job, number)
	each := mustParse(b, schedule.Cron("* * * * * *"))
	for i := range table {
		table[i] = jobs.Job{Name: fmt.Sprintf("job-%04d", i), Schedule: each, Handler: "nothing",
			MisfireThreshold: 10 * time.Second}
	}
	for _, replicas := range []int{3, 12, 48} {
		b.Run(fmt.Sprint(replicas), func(b *testing.B) {
			runtime.GC()
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			var ended atomic.Int64
			ctx, stop := context.WithCancel(b.Context())
			stopped := make(chan error, replicas)
			store, backend := simstore.New(), memory.New()
			for i := range replicas {
				s := newBenchReplica(b, fmt.Sprint("replica-", i), 100, store, backend, table,
					func() { ended.Add(1) })
				go func() { stopped <- s.Run(ctx) }()
			}
			time.Sleep(warmUp)
			used, before := processTime(b), ended.Load()
			for b.Loop() {
				time.Sleep(measure)
			}
			firings := ended.Load() - before
			if firings == 0 {
				b.Fatal("got no firings")
			}
			b.ReportMetric(float64((processTime(b)-used).Microseconds())/float64(firings),
				"µs/firing")
			b.ReportMetric(float64(firings)/(float64(b.N)*measure.Seconds()), "firings/s")
			b.ReportMetric(0, "ns/op")
			stop()
			for range replicas {
				if err := <-stopped; err != nil {
					b.Error(err)
				}
			}
		})
	}
}

// processTime returns the processor time of this process.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
