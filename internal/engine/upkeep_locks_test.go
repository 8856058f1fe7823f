package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// lockedStore is a store whose sweep also ends the locks of programs without a scheduler.
type lockedStore struct {
	storage.Store
	grants locking.Grants
}

func (s *lockedStore) Sweep(ctx context.Context) (storage.Swept, error) {
	swept, err := s.Store.Sweep(ctx)
	if err == nil {
		swept.Released, err = s.grants.Sweep(ctx)
	}
	return swept, err
}

// Only schedulers are left to sweep a dead program. The sweep ends both its advisory locks and its
// grants.
func TestSweepRemovesAdvisoryLocksOfADeadProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		grants := memory.NewGrants()
		program, err := locking.New(c.locks, locking.Options{
			Namespace: c.store.ClusterID().String(), Lease: time.Hour, Grants: grants,
			Session: locking.Session{Replica: "program"}, Log: zerolog.Nop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- program.Run(ctx) }()
		if err := program.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		controlState := tables(t, "orders")
		if _, err := program.TryAcquire(t.Context(), locking.Owner{}, controlState); err != nil {
			t.Fatal(err)
		}
		next := locking.Session{ID: uuid.New(), Replica: "program", TTL: time.Hour,
			ReplaceEarlier: true}
		if err := grants.OpenSession(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		o := c.options("a", takes(time.Millisecond))
		o.Store = &lockedStore{c.store, grants}
		stop := c.start(o)
		time.Sleep(time.Second) // less than the heartbeat with which the program would detect it
		holders, err := o.Locker.Inspect(t.Context(), []locking.Resource{controlState[0].Resource})
		if err != nil || len(holders) != 0 {
			t.Errorf("holders %v, %v", holders, err)
		}
		stop()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
