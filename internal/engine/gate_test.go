package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// failing is an advisory-lock backend that returns only errors. If adds land, only their replies
// are lost.
type failing struct {
	locking.Backend
	err  error
	land bool
}

func (f failing) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if f.land {
		if err := f.Backend.Add(ctx, key, value, ttl); err != nil &&
			!errors.Is(err, locking.ErrNotStored) {
			return err
		}
	}
	return f.err
}

// AddAll implements locking.Backend.
func (f failing) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	return lockingtest.AddEach(ctx, f, items, ttl)
}

func (f failing) Get(context.Context, ...string) (map[string][]byte, error) { return nil, f.err }

// After an error of the gate the replica continues. The reply may be lost, or memcached may be
// down, and then no other replica would start the firing.
func TestFiringRunsAfterAnErrorOfItsGate(t *testing.T) {
	for name, backend := range map[string]failing{
		"unavailable":                       {err: locking.ErrUnavailable},
		"unclear, and the add was executed": {err: locking.ErrUnclear, land: true},
		"unclear, and the add was lost":     {err: locking.ErrUnclear},
		"refused for lack of memory":        {err: locking.ErrFull},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				backend.Backend, backend.err = c.locks, fmt.Errorf("add: %w", backend.err)
				locker, err := locking.New(backend, locking.Options{
					Namespace: c.store.ClusterID().String(), Lease: 30 * time.Second, Restore: true,
					Log: zerolog.Nop(),
				})
				if err != nil {
					t.Fatal(err)
				}
				j := once(t, "job", 10*time.Second)
				j.Misfire, j.MisfireBy.NoWorker = jobs.MisfireSkip, jobs.MisfireSkip
				scheduled := time.Now().Add(10 * time.Second)
				o := c.options("a", takes(time.Second), j)
				o.Locker = locker
				stop := c.start(o)
				time.Sleep(time.Minute) // past the threshold: misfires are recorded
				stop()
				c.promptly("job", scheduled, "a")
			})
		})
	}
}
