package memcached

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/locking"
)

func TestOneBrokenConnectionRenewsAllIdleOnes(t *testing.T) {
	server, b := started(t, Options{MaxIdle: 4})
	if err := askAtOnce(t.Context(), b, 4); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "k"); err != nil {
		t.Errorf("a request that may be repeated: %v", err)
	}
	if err := askAtOnce(t.Context(), b, 4); err != nil {
		t.Errorf("requests after it, which are not repeated: %v", err)
	}
}

func TestConnectionInUseIsRenewedOnItsReturn(t *testing.T) {
	_, b := started(t, Options{})
	err := b.run(t.Context(), func(c *memcache.Client) error {
		if err := c.Ping(); err != nil {
			return err
		}
		b.pool.drop()
		return c.Ping() // the connection stays open meanwhile
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := b.pool.idle[0]; len(s.conns) != 0 || s.generation != b.pool.generation {
		t.Errorf("%d connections of generation %d in pool of generation %d", len(s.conns),
			s.generation, b.pool.generation)
	}
}

// TestContextEndsAfterItsRequest ends a context when its request is over and another request uses
// the connection.
func TestContextEndsAfterItsRequest(t *testing.T) {
	_, b := started(t, Options{MaxIdle: 1})
	if err := askAtOnce(t.Context(), b, 1); err != nil {
		t.Fatal(err)
	}
	s := b.pool.idle[0]
	err := b.run(t.Context(), func(c *memcache.Client) error {
		s.end(s.request - 1)
		return c.Ping()
	})
	if err != nil {
		t.Errorf("the next request: %v", err)
	}
}

func TestFullPool(t *testing.T) {
	_, b := started(t, Options{MaxIdle: 1, Timeout: 50 * time.Millisecond})
	err := b.run(t.Context(), func(*memcache.Client) error {
		if err := b.Ping(t.Context()); !errors.Is(err, locking.ErrUnavailable) {
			t.Errorf("wait for a connection: %v", err)
		}
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(stop) })
		if err := b.Add(ctx, "k", nil, time.Minute); !errors.Is(err, locking.ErrUnavailable) {
			t.Errorf("wait for a connection while ctx ends: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Ping(t.Context()); err != nil {
		t.Errorf("with a slot: %v", err)
	}
}

func started(t *testing.T, o Options) (*servertest.Memcached, *Backend) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs memcached")
	}
	server := servertest.NewMemcached(t)
	o.Servers = []string{server.Addr()}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return server, b
}

// askAtOnce uses n connections at the same time.
func askAtOnce(ctx context.Context, b *Backend, n int) error {
	if n == 0 {
		return nil
	}
	return b.run(ctx, func(c *memcache.Client) error {
		if err := c.Ping(); err != nil {
			return err
		}
		return askAtOnce(ctx, b, n-1)
	})
}
