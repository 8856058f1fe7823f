package holdfast_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

// The jobs of a large table are in groups of 1,000: for_each has no more items.
const (
	largeTable = 100_000
	largeGroup = 1_000
)

// customer is the params of the jobs of a large table.
type customer struct {
	Customer string `json:"customer"`
}

// BenchmarkLargeTable measures the start of a replica with 100,000 jobs that run once a day. It
// reports the time from New until the replica is ready and until the first run of a job that fires
// every second, and the live heap after that. With PostgreSQL there is a first start, which adds
// all definitions, and a second one.
func BenchmarkLargeTable(b *testing.B) {
	for _, from := range []struct {
		name string
		jobs largeJobs
	}{{"yaml", largeFile}, {"go", largeGo}, {"functions", largeFunctions}} {
		b.Run(from.name+"/sqlite", func(b *testing.B) {
			for b.Loop() {
				file := filepath.Join(b.TempDir(), "bench.db")
				reportStart(b, from.jobs, holdfast.WithSQLite(sqlite.Driver, file))
			}
		})
		b.Run(from.name+"/postgres", func(b *testing.B) {
			server, err := servertest.StartPostgres(b.Context(), "", "fsync=on")
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := server.Stop(); err != nil {
					b.Error(err)
				}
			}()
			for _, start := range []string{"first", "second"} {
				b.Run(start, func(b *testing.B) {
					for b.Loop() {
						reportStart(b, from.jobs,
							holdfast.WithPostgres(server.URL("postgres")))
					}
				})
			}
		})
	}
}

// largeJobs returns n jobs. It is called within the measurement, because a loop of a benchmark
// keeps all arguments of its calls.
type largeJobs func(tb testing.TB, n int) holdfast.Option

// reportStart reports the figures of a start.
func reportStart(b *testing.B, jobsOf largeJobs, store holdfast.Option) {
	b.Helper()
	start := measureStart(b, jobsOf, largeTable, store)
	b.ReportMetric(start.checked.Seconds(), "checked-s")
	b.ReportMetric(start.ready.Seconds(), "ready-s")
	b.ReportMetric(start.run.Seconds(), "first-run-s")
	b.ReportMetric(float64(start.heap)/1e6, "heap-MB")
	b.ReportMetric(0, "ns/op") // the time includes that of the end
}

// startFigures are the times from New to steps of the start, and the heap after it.
type startFigures struct {
	checked, ready, run time.Duration // New has returned, ready, first run
	heap                uint64        // bytes
}

// measureStart starts a replica and stops it after its first run.
func measureStart(tb testing.TB, jobsOf largeJobs, n int,
	store holdfast.Option) (start startFigures) {
	tb.Helper()
	ran := make(chan struct{}, 1)
	pulse := holdfast.Job[struct{}]{Name: "pulse", Schedule: schedule.Cron("* * * * * *"),
		NoTables: true, Run: func(context.Context, *jobs.Run, struct{}) error {
			select {
			case ran <- struct{}{}:
			default:
			}
			return nil
		}}
	table := jobsOf(tb, n)
	begin := time.Now()
	replica, err := holdfast.New(store, table, holdfast.WithJobs(pulse),
		holdfast.WithHandlers(jobs.Handle("nothing",
			func(context.Context, *jobs.Run, customer) error { return nil })),
		holdfast.WithReplicaName("bench"), holdfast.WithPage(admin.Page, "127.0.0.1:0"),
		holdfast.WithLog(zerolog.New(os.Stderr).Level(zerolog.WarnLevel), nil))
	if err != nil {
		tb.Fatal(err)
	}
	start.checked = time.Since(begin)
	ctx, stop := context.WithCancel(tb.Context())
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- replica.Run(ctx) }()
	for replica.Ready(ctx) != nil {
		select {
		case err := <-stopped:
			tb.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	start.ready = time.Since(begin)
	select {
	case err := <-stopped:
		tb.Fatal(err)
	case <-ran:
	}
	start.run, start.heap = time.Since(begin), liveHeap()
	stop()
	if err := <-stopped; err != nil {
		tb.Error(err)
	}
	runtime.KeepAlive(replica)
	return start
}

// liveHeap returns the smallest heap after one of several collections, in bytes: the polls, which
// run about once a second, use more for a moment.
func liveHeap() uint64 {
	var least uint64
	for range 8 {
		time.Sleep(100 * time.Millisecond)
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		if least == 0 || stats.HeapAlloc < least {
			least = stats.HeapAlloc
		}
	}
	return least
}

// largeFile returns the jobs of a YAML file.
func largeFile(tb testing.TB, n int) holdfast.Option {
	tb.Helper()
	var text, items strings.Builder
	for i := range largeGroup {
		fmt.Fprintf(&items, "c%03d, ", i)
	}
	text.WriteString("jobs:\n")
	for group := range n / largeGroup {
		fmt.Fprintf(&text, "- name: rollup-%02d\n  schedule: '%d 3 * * *'\n  handler: nothing\n"+
			"  for_each: {customer: [%s]}\n  tables: ['sales_%02d_{customer}']\n", group, group%60,
			items.String(), group)
	}
	file := filepath.Join(tb.TempDir(), "bench.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		tb.Fatal(err)
	}
	return holdfast.WithConfigFile(file)
}

// largeGo returns the same jobs, made by a program.
func largeGo(_ testing.TB, n int) holdfast.Option {
	return largeProgram(n, func(j *holdfast.Job[customer]) { j.Handler = "nothing" })
}

// largeFunctions is largeGo, and each job brings a function.
func largeFunctions(_ testing.TB, n int) holdfast.Option {
	return largeProgram(n, func(j *holdfast.Job[customer]) {
		j.Run = func(context.Context, *jobs.Run, customer) error { return nil }
	})
}

func largeProgram(n int, handled func(*holdfast.Job[customer])) holdfast.Option {
	all := make([]holdfast.AnyJob, n)
	for i := range all {
		group, item := i/largeGroup, i%largeGroup
		j := holdfast.Job[customer]{
			Name:     fmt.Sprintf("rollup-%02d.c%03d", group, item),
			Schedule: schedule.Cron(fmt.Sprintf("%d 3 * * *", group%60)),
			Params:   customer{fmt.Sprintf("c%03d", item)},
			Writes:   []string{fmt.Sprintf("sales_%02d_c%03d", group, item)},
		}
		handled(&j)
		all[i] = j
	}
	return holdfast.WithJobs(all...)
}

// TestLargeTable starts a replica with 10,000 jobs of a program, and bounds the memory that each of
// them takes while the replica runs.
func TestLargeTable(t *testing.T) {
	const n, most = 10_000, 2_500 // bytes
	before := liveHeap()
	start := measureStart(t, largeFunctions, n,
		holdfast.WithSQLite(sqlite.Driver, filepath.Join(t.TempDir(), "large.db")))
	each := (int64(start.heap) - int64(before)) / n
	if t.Logf("%d bytes a job", each); each > most {
		t.Errorf("each job takes %d bytes, expected at most %d", each, most)
	}
}
