package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// distantStore is a store whose calls take 10 ms. It counts adoptions and adopted runs.
type distantStore struct {
	storage.Store
	adoptions, adopted atomic.Int64
}

const halfTrip = 5 * time.Millisecond

func (s *distantStore) Start(ctx context.Context, session uuid.UUID,
	all []storage.StartRequest) ([]storage.StartResult, error) {
	time.Sleep(halfTrip)
	defer time.Sleep(halfTrip)
	return s.Store.Start(ctx, session, all)
}

func (s *distantStore) Note(ctx context.Context, session uuid.UUID,
	all []storage.Note) ([]bool, error) {
	time.Sleep(halfTrip)
	defer time.Sleep(halfTrip)
	return s.Store.Note(ctx, session, all)
}

func (s *distantStore) Finish(ctx context.Context, all []storage.FinishRequest) ([]bool, error) {
	time.Sleep(halfTrip)
	defer time.Sleep(halfTrip)
	return s.Store.Finish(ctx, all)
}

func (s *distantStore) Adopt(ctx context.Context, session uuid.UUID,
	a storage.Adoption) ([]storage.Record, error) {
	s.adoptions.Add(1)
	time.Sleep(halfTrip)
	defer time.Sleep(halfTrip)
	records, err := s.Store.Adopt(ctx, session, a)
	s.adopted.Add(int64(len(records)))
	return records, err
}

// TestWaitingLateRunAdoptsNoOthers runs a replica after an outage that left 50 late runs of one
// job. A run that waits for the one before it gives its slot for late runs back. If that woke the
// adoption, the next run would be adopted to wait too, and so on.
func TestWaitingLateRunAdoptsNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := job(t, "job", time.Hour, "orders")
		j.Misfire = jobs.MisfireRunAll
		c.outage(50*time.Hour+30*time.Minute, j)
		o := c.options("a", takes(5*time.Second), j)
		store := &distantStore{Store: c.store}
		o.Store, o.Workers, o.CatchUp = store, 8, 2 // the default for eight workers
		stop := c.start(o)
		defer stop()
		time.Sleep(4 * time.Second)
		if n := store.adopted.Load(); n < 2 || n > 10 {
			t.Errorf("adopted %d late runs in 4 s while one of them ran, want 2 to 10", n)
		}
		time.Sleep(51 * time.Second)
		if n := store.adoptions.Load(); n > 120 {
			t.Errorf("looked for waiting runs %d times in 55 s, want at most 120", n)
		}
	})
}

// TestLateRunsOfAJobAreInOrder runs three replicas after an outage that left 50 late runs of one
// job.
func TestLateRunsOfAJobAreInOrder(t *testing.T) {
	for _, length := range []time.Duration{2 * time.Second, 100 * time.Millisecond, 0} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			j := job(t, "job", time.Hour, "orders")
			j.Misfire = jobs.MisfireRunAll
			c.outage(50*time.Hour+30*time.Minute, j)
			began := time.Now()
			for _, name := range []string{"a", "b", "c"} {
				o := c.options(name, takes(length), j)
				o.Store, o.Workers, o.CatchUp = &distantStore{Store: c.store}, 8, 2
				defer c.start(o)()
			}
			time.Sleep(3 * time.Minute)
			runs := slices.DeleteFunc(c.runs("job"), func(r storage.Record) bool {
				return r.StartedAt == nil || r.StartedAt.Before(began)
			})
			if len(runs) != 50 {
				t.Errorf("handler of %s: %d runs began, want 50", length, len(runs))
			}
			slices.SortFunc(runs, func(a, b storage.Record) int {
				return a.StartedAt.Compare(*b.StartedAt)
			})
			for i := 1; i < len(runs); i++ {
				if before := runs[i-1].ScheduledAt; runs[i].ScheduledAt.Before(before) {
					t.Errorf("handler of %s: the run of %s began after that of %s", length,
						runs[i].ScheduledAt.Format(time.DateTime), before.Format(time.DateTime))
				}
			}
			t.Logf("handler of %s: the last one began after %s", length,
				runs[len(runs)-1].StartedAt.Sub(began))
		})
	}
}
