package holdfast_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
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

// triggerCluster is three replicas with a job that only runs when it is triggered, and other jobs.
type triggerCluster struct {
	replicas []*holdfast.Replica
	began    sync.Map // the key of a run to the time at which its handler ran
	ended    chan struct{}
}

func newTriggerCluster(b *testing.B, more ...holdfast.AnyJob) *triggerCluster {
	b.Helper()
	c := &triggerCluster{ended: make(chan struct{}, 1<<20)}
	postgres, err := servertest.StartPostgres(b.Context(), "", "fsync=on")
	if err != nil {
		b.Fatal(err)
	}
	memcached, err := servertest.StartMemcached(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	b.Cleanup(func() {
		stop()
		running.Wait()
		if err := memcached.Stop(); err != nil {
			b.Error(err)
		}
		if err := postgres.Stop(); err != nil {
			b.Error(err)
		}
	})
	for i := range 3 {
		replica, err := holdfast.New(holdfast.WithPostgres(postgres.URL("postgres")),
			holdfast.WithMemcached(memcached.Addr()), holdfast.WithReplicaName(fmt.Sprint("r", i)),
			holdfast.WithLog(zerolog.New(os.Stderr).Level(zerolog.WarnLevel), nil),
			holdfast.WithJobs(more...),
			holdfast.WithJobs(holdfast.Job[struct{}]{Name: "triggered", OnlyTriggered: true,
				NoTables: true, Overlap: jobs.OverlapAllow,
				Run: func(_ context.Context, run *jobs.Run, _ struct{}) error {
					c.began.Store(run.Key, time.Now())
					c.ended <- struct{}{}
					return nil
				}}))
		if err != nil {
			b.Fatal(err)
		}
		c.replicas = append(c.replicas, replica)
		running.Go(func() {
			if err := replica.Run(ctx); err != nil {
				b.Error(err)
			}
		})
		for replica.Ready(ctx) != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
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
	slices.Sort(waits)
	for name, at := range map[string]int{"p50-ms": n / 2, "p99-ms": n * 99 / 100} {
		b.ReportMetric(float64(waits[at].Microseconds())/1000, name)
	}
	b.ReportMetric(0, "ns/op")
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
