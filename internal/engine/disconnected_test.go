package engine_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
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

func (s *disconnecting) ExpireDisconnected(context.Context, uuid.UUID) (
	storage.Disconnected, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := time.Since(s.swept); s.expired.IsZero() && 0 < since && since < 2*time.Second {
		s.expired = time.Now()
		return storage.Disconnected{Replicas: []string{"dead"}}, nil
	}
	return storage.Disconnected{}, nil
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

// searching is a store that counts the searches for disconnected sessions, which have one result.
type searching struct {
	storage.Store
	result   storage.Disconnected
	searches atomic.Int64
}

func (s *searching) ExpireDisconnected(context.Context, uuid.UUID) (storage.Disconnected, error) {
	s.searches.Add(1)
	return s.result, nil
}

// A replica searches for disconnected sessions each second, as often as it sends heartbeats if
// others search, and earlier if the search before says so.
func TestIntervalsOfSearches(t *testing.T) {
	for _, test := range []struct {
		result storage.Disconnected
		want   int64 // in a minute
	}{
		{storage.Disconnected{}, 60},
		{storage.Disconnected{AfterHeartbeat: true}, 12},
		{storage.Disconnected{Again: 480 * time.Millisecond}, 120},
		{storage.Disconnected{Again: time.Hour}, 60},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			store := &searching{Store: c.store, result: test.result}
			o := c.options("a", takes(time.Millisecond), once(t, "manual", 24*time.Hour))
			o.Store, o.Heartbeat = store, 5*time.Second
			stop := c.start(o)
			time.Sleep(10*time.Second + 300*time.Millisecond)
			before := store.searches.Load()
			time.Sleep(time.Minute)
			if n := store.searches.Load() - before; n != test.want {
				t.Errorf("%+v: got %d searches in a minute, want %d", test.result, n, test.want)
			}
			stop()
		})
	}
}

// Nobody renews the session of a frozen replica. Another replica ends it within a second after it
// expires, at whatever time the sweeps of that replica are.
func TestFrozenReplicaIsSweptWhenItsSessionExpires(t *testing.T) {
	for late := range 5 {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			store := &observed{Store: c.store, replica: "frozen"}
			o := c.options("a", takes(time.Millisecond), once(t, "manual", 24*time.Hour))
			o.Store = store
			stop := c.start(o)
			time.Sleep(time.Duration(late) * time.Second)
			const ttl = 15 * time.Second
			expires := time.Now().Add(ttl)
			if err := c.store.Open(t.Context(), storage.Session{ID: uuid.New(),
				Replica: "frozen", Version: "v1", TTL: ttl}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * ttl)
			stop()
			if took := store.ended().Sub(expires); took < 0 || took > time.Second {
				t.Errorf("opened after %d s: ended %s after its expiry", late, took)
			}
		})
	}
}

// A sweep ends the expired sessions first, and then finds out when the next one expires. A session
// that expires in between is ended soon nevertheless.
func TestSessionThatExpiresDuringASweepIsSwept(t *testing.T) {
	for _, latency := range []time.Duration{time.Millisecond, 10 * time.Millisecond,
		100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			const ttl = 15 * time.Second
			store := &slowSweeps{observed: observed{Store: c.store, replica: "frozen"},
				latency: latency, ttl: ttl}
			o := c.options("a", takes(time.Millisecond), once(t, "manual", 24*time.Hour))
			o.Store = store
			stop := c.start(o)
			time.Sleep(time.Second)
			expires := time.Now().Add(ttl)
			store.expire(expires)
			if err := c.store.Open(t.Context(), storage.Session{ID: uuid.New(),
				Replica: "frozen", Version: "v1", TTL: ttl}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * ttl)
			stop()
			if took := store.ended().Sub(expires); took < 0 || took > 2*latency {
				t.Errorf("latency of %s: ended %s after its expiry", latency, took)
			}
		})
	}
}

// slowSweeps is a store whose sweeps take time before and after they end the expired sessions.
type slowSweeps struct {
	observed
	latency, ttl time.Duration
	expires      time.Time // of a session
}

func (s *slowSweeps) expire(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expires = at
}

func (s *slowSweeps) Sweep(ctx context.Context) (storage.Swept, error) {
	time.Sleep(s.latency / 2)
	swept, err := s.observed.Sweep(ctx)
	time.Sleep(s.latency / 2)
	s.mu.Lock()
	defer s.mu.Unlock()
	if swept.NextExpiry = time.Until(s.expires); swept.NextExpiry <= 0 {
		swept.NextExpiry = s.ttl
	}
	return swept, err
}

// observed is a store that notes when a sweep ends the session of a replica.
type observed struct {
	storage.Store
	replica string
	mu      sync.Mutex
	at      time.Time
}

func (s *observed) Sweep(ctx context.Context) (storage.Swept, error) {
	swept, err := s.Store.Sweep(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(swept.Sessions, s.replica) {
		s.at = time.Now()
	}
	return swept, err
}

func (s *observed) ended() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
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
