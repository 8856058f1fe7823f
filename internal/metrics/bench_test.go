package metrics

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// nothing is a store and a backend without effect.
type nothing struct {
	storage.Store
	results []storage.StartResult
}

func (n *nothing) Start(context.Context, uuid.UUID,
	[]storage.StartRequest) ([]storage.StartResult, error) {
	return n.results, nil
}
func (n *nothing) Finish(context.Context, []storage.FinishRequest) ([]bool, error) {
	return nil, nil
}
func (n *nothing) Server(string) string                                     { return "" }
func (n *nothing) Add(context.Context, string, []byte, time.Duration) error { return nil }
func (n *nothing) Get(context.Context, ...string) (map[string][]byte, error) {
	return nil, nil
}
func (n *nothing) Renew(context.Context, string, []byte, time.Duration) error { return nil }
func (n *nothing) Delete(context.Context, string, []byte) error               { return nil }
func (n *nothing) DeleteAll(context.Context, []locking.Item) []error          { return nil }
func (n *nothing) AddAll(_ context.Context, items []locking.Item, _ time.Duration) []locking.Added {
	return nil
}

// BenchmarkFiring measures the cost of the metrics of a firing with two tables: its three events,
// its start and finish, each alone in its batch, and its three memcached requests.
func BenchmarkFiring(b *testing.B) {
	m := New(Options{Names: 200})
	inner := &nothing{results: []storage.StartResult{{Outcome: storage.StartGranted}}}
	store, backend := m.Store(inner), m.Backend(inner)
	var locks []locking.Request
	for _, name := range []string{"orders", "prices"} {
		resource, err := locking.Table(name, "public")
		if err != nil {
			b.Fatal(err)
		}
		locks = append(locks, locking.Request{Resource: resource, Mode: locking.Exclusive})
	}
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			m.Observe(&jobs.Event{Kind: jobs.EventScheduled, Job: "sales", Locks: locks})
			_ = backend.Add(ctx, "key", nil, time.Minute) // gate
			_ = backend.AddAll(ctx, nil, time.Minute)
			_, _ = store.Start(ctx, uuid.Nil, nil)
			m.Observe(&jobs.Event{Kind: jobs.EventStarted, Job: "sales", Attempt: 1,
				StartDelay: time.Millisecond, Locking: time.Millisecond, Locks: locks})
			_, _ = store.Finish(ctx, nil)
			_ = backend.DeleteAll(ctx, nil)
			m.Observe(&jobs.Event{Kind: jobs.EventFinished, Job: "sales", State: jobs.Succeeded,
				Took: time.Second, Held: time.Second, Locks: locks})
		}
	})
}

// BenchmarkScrape measures a scrape of a replica with the maximum number of names.
func BenchmarkScrape(b *testing.B) {
	m := New(Options{Names: 200})
	m.Watch(Sources{Stats: func() engine.Stats { return engine.Stats{} }})
	table := make([]jobs.Job, 200)
	for i := range table {
		table[i].Name = uuid.NewString()
		resource, err := locking.Path(table[i].Name)
		if err != nil {
			b.Fatal(err)
		}
		m.resources.of(resource)
	}
	m.Expect(table)
	for b.Loop() {
		if _, err := m.Gatherer().Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
