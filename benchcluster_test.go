package holdfast_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// benchCluster is three replicas of one cluster, which the process of a benchmark runs with
// PostgreSQL (fsync=on) and memcached.
type benchCluster struct {
	replicas []*holdfast.Replica
	database *servertest.Proxy // the first replica's way to PostgreSQL
}

// newBenchCluster starts a cluster. options returns more options of replica i.
func newBenchCluster(b *testing.B, options func(i int) []holdfast.Option) *benchCluster {
	b.Helper()
	postgres, err := servertest.StartPostgres(b.Context(), "", "fsync=on")
	if err != nil {
		b.Fatal(err)
	}
	memcached, err := servertest.StartMemcached(b.Context(), "-M", "-F", "-o",
		"no_slab_reassign")
	if err != nil {
		b.Fatal(err)
	}
	c := &benchCluster{database: servertest.NewProxy(b, postgres.Addr())}
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
		url := postgres.URL("postgres")
		if i == 0 {
			url = strings.Replace(url, postgres.Addr(), c.database.Addr(), 1)
		}
		replica, err := holdfast.New(append([]holdfast.Option{holdfast.WithPostgres(url),
			holdfast.WithMemcached(memcached.Addr()), holdfast.WithReplicaName(fmt.Sprint("r", i)),
			holdfast.WithLog(zerolog.New(os.Stderr).Level(zerolog.WarnLevel), nil)},
			options(i)...)...)
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

// reportWaits reports percentiles of the waits instead of the time of an iteration. It sorts them.
func reportWaits(b *testing.B, waits []time.Duration) {
	b.Helper()
	slices.Sort(waits)
	n := len(waits)
	for name, at := range map[string]int{"p50-ms": n / 2, "p99-ms": n * 99 / 100} {
		b.ReportMetric(float64(waits[at].Microseconds())/1000, name)
	}
	b.ReportMetric(0, "ns/op")
}
