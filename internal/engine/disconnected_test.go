package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// disconnecting is a store that expires a session in the round after a sweep, once.
type disconnecting struct {
	storage.Store
	mu                    sync.Mutex
	swept, expired, again time.Time // the last sweep before, the expiry, and the sweep after
}

func (s *disconnecting) ExpireDisconnected(context.Context, uuid.UUID) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := time.Since(s.swept); s.expired.IsZero() && 0 < since && since < 2*time.Second {
		s.expired = time.Now()
		return []string{"dead"}, nil
	}
	return nil, nil
}

func (s *disconnecting) Sweep(ctx context.Context) (storage.Swept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.expired.IsZero():
		s.swept = time.Now()
	case s.again.IsZero():
		s.again = time.Now()
	}
	return s.Store.Sweep(ctx)
}

// The sweep follows at once when the process of a replica is gone, and not at its next interval.
func TestDisconnectedReplicaIsSweptAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		store := &disconnecting{Store: c.store}
		o := c.options("a", takes(time.Millisecond), once(t, "manual", 24*time.Hour))
		o.Store = store
		stop := c.start(o)
		time.Sleep(10 * time.Second)
		stop()
		if store.expired.IsZero() || !store.again.Equal(store.expired) {
			t.Errorf("swept at %s, expired a session at %s, swept again at %s", store.swept,
				store.expired, store.again)
		}
	})
}
