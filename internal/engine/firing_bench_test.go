package engine

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// newBenchReplica returns a replica whose handlers do nothing, with in-memory advisory locks. ended
// is called at the end of each run.
func newBenchReplica(b *testing.B, name string, workers int, store *simstore.Store,
	backend *memory.Backend, table []jobs.Job, ended func()) *Scheduler {
	b.Helper()
	locker, err := locking.New(backend, locking.Options{
		Namespace: store.ClusterID().String(), Lease: time.Minute, Restore: true,
		Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	registry, err := jobs.NewRegistry(jobs.Handle("nothing",
		func(context.Context, *jobs.Run, struct{}) error { return nil }))
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(Options{Store: store, RunStore: simstore.WithoutSQL(store), Locker: locker,
		Registry: registry, Replica: name, Workers: workers, Heartbeat: 5 * time.Second,
		SessionTTL: 15 * time.Second, ShutdownGrace: time.Second, Log: zerolog.Nop(), Jobs: table,
		Observer: func(e *jobs.Event) {
			if e.Kind == jobs.EventFinished {
				ended()
			}
		}})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func mustParse(b *testing.B, spec schedule.Spec) schedule.Schedule {
	b.Helper()
	parsed, err := schedule.Parse(spec, time.UTC)
	if err != nil {
		b.Fatal(err)
	}
	return parsed
}

// BenchmarkFiring measures firings from the ready queue to the release, with an in-memory store and
// in-memory advisory locks.
func BenchmarkFiring(b *testing.B) {
	daily := mustParse(b, schedule.Spec{Every: 24 * time.Hour})
	ended := make(chan struct{}, 1024)
	s := newBenchReplica(b, "a", 8, simstore.New(), memory.New(),
		[]jobs.Job{{Name: "job", Schedule: daily, Handler: "nothing",
			Overlap: jobs.OverlapAllow, MisfireThreshold: time.Hour}},
		func() { ended <- struct{}{} })
	ctx, stop := context.WithCancel(b.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- s.Run(ctx) }()
	if _, err := s.keeper.Wait(ctx); err != nil {
		b.Fatal(err)
	}
	e, now := s.table.get("job"), time.Now().UTC()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		scheduledAt := now.Add(-time.Duration(i) * time.Microsecond)
		s.ready.push(pending{entry: e, attempt: 1, since: now,
			Firing: storage.Firing{Job: e.Name, ScheduledAt: scheduledAt}})
	}
	for range b.N {
		<-ended
	}
	b.StopTimer()
	stop()
	if err := <-stopped; err != nil {
		b.Error(err)
	}
}
