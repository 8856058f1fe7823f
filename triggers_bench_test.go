package holdfast_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/jobs"
)

// BenchmarkTriggers measures triggers on three replicas of one cluster, which this process runs
// with PostgreSQL and memcached. It reports, for a steady rate, the time from the reply of a
// trigger until its handler runs. For callers without a pause it reports the runs that ended in
// each second.
func BenchmarkTriggers(b *testing.B) {
	c := newTriggerCluster(b)
	b.Run("rate=200", func(b *testing.B) {
		for b.Loop() {
			c.steadily(b, 200, 10*time.Second)
		}
	})
	for _, callers := range []int{16, 128} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			for b.Loop() {
				c.atOnce(b, callers, 4096)
			}
		})
	}
}

// triggerCluster is a cluster with a job that only runs when it is triggered.
type triggerCluster struct {
	*benchCluster
	began sync.Map // the key of a run to the time at which its handler ran
	ended chan struct{}
}

func newTriggerCluster(b *testing.B) *triggerCluster {
	b.Helper()
	c := &triggerCluster{ended: make(chan struct{}, 1<<20)}
	c.benchCluster = newBenchCluster(b, func(int) []holdfast.Option {
		return []holdfast.Option{holdfast.WithJobs(holdfast.Job[struct{}]{Name: "triggered",
			OnlyTriggered: true, NoTables: true, Overlap: jobs.OverlapAllow,
			Run: func(_ context.Context, run *jobs.Run, _ struct{}) error {
				c.began.Store(run.Key, time.Now())
				c.ended <- struct{}{}
				return nil
			}})}
	})
	return c
}

var triggerNumber atomic.Int64

// trigger triggers one run and returns its key.
func (c *triggerCluster) trigger(b *testing.B) string {
	n := triggerNumber.Add(1)
	key := fmt.Sprint("run-", n)
	replica := c.replicas[int(n)%len(c.replicas)]
	if _, err := replica.Trigger(b.Context(),
		holdfast.Trigger[any]{Job: "triggered", Key: key}); err != nil {
		b.Error(err)
	}
	return key
}

// steadily triggers at a rate, in each second, for some time.
func (c *triggerCluster) steadily(b *testing.B, rate int, during time.Duration) {
	b.Helper()
	n := rate * int(during/time.Second)
	replied := make([]time.Time, n)
	keys := make([]string, n)
	var all sync.WaitGroup
	next := time.Now()
	for i := range n {
		time.Sleep(time.Until(next))
		next = next.Add(time.Second / time.Duration(rate))
		all.Go(func() { keys[i], replied[i] = c.trigger(b), time.Now() })
	}
	all.Wait()
	for range n {
		<-c.ended
	}
	var waits []time.Duration
	for i, key := range keys {
		began, _ := c.began.Load(key)
		waits = append(waits, max(began.(time.Time).Sub(replied[i]), 0))
	}
	reportWaits(b, waits)
}

// atOnce triggers n runs by callers without a pause.
func (c *triggerCluster) atOnce(b *testing.B, callers, n int) {
	b.Helper()
	start := time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range n / callers {
				c.trigger(b)
			}
		})
	}
	all.Wait()
	triggered := time.Since(start)
	for range n / callers * callers {
		<-c.ended
	}
	b.ReportMetric(float64(n)/triggered.Seconds(), "triggers/s")
	b.ReportMetric(float64(n)/time.Since(start).Seconds(), "runs/s")
	b.ReportMetric(0, "ns/op")
}
