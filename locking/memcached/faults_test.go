package memcached_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

const (
	lease = 30 * time.Second
	long  = 30 * time.Second // the timeout where no request may reach it
	// mixed is the timeout where one request must reach it, and others must not. A busy machine may
	// delay these by a second or two.
	mixed = 3 * time.Second
	short = 200 * time.Millisecond // the timeout where all requests may reach it
)

// once gives the first request with the prefix a fate. Other requests pass.
func once(prefix string, fate servertest.Fate) func([]byte) servertest.Fate {
	var done atomic.Bool
	return func(request []byte) servertest.Fate {
		if bytes.HasPrefix(request, []byte(prefix)) && done.CompareAndSwap(false, true) {
			return fate
		}
		return servertest.Pass
	}
}

func TestAmbiguousAdd(t *testing.T) {
	tests := map[string]struct {
		fate  servertest.Fate
		there bool
	}{
		"connection broke before it arrived":   {servertest.Cut, false},
		"connection broke after it was stored": {servertest.CutReply, true},
		"timeout before it arrived":            {servertest.Drop, false},
		"timeout after it was stored":          {servertest.LoseReply, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, proxy, b := throughProxy(t, mixed)
			proxy.OnRequest(once("add ", test.fate))
			err := b.Add(t.Context(), "k", []byte("1"), lease)
			if !errors.Is(err, locking.ErrUnclear) {
				t.Errorf("got %v, want an unclear outcome", err)
			}
			direct := connect(t, server.Addr())
			found, err := direct.Get(t.Context(), "k")
			if _, there := found["k"]; err != nil || there != test.there {
				t.Errorf("there: %v (%v), want %v", there, err, test.there)
			}
			// The locker returns a lock in both cases.
			proxy.OnRequest(once("add ", test.fate))
			lock, err := newLocker(t, b).
				TryAcquire(t.Context(), locking.Owner{Job: "job"}, tables(t, "a", "b"))
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDelayedAdd delays an add until long after the release of its lock.
func TestDelayedAdd(t *testing.T) {
	t.Parallel()
	server, proxy, b := throughProxy(t, mixed)
	land := make(chan struct{})
	var held atomic.Bool
	proxy.OnRequest(func(request []byte) servertest.Fate {
		if bytes.HasPrefix(request, []byte("add ")) && held.CompareAndSwap(false, true) {
			<-land
		}
		return servertest.Pass
	})
	locker := newLocker(t, b)
	lock, err := locker.TryAcquire(t.Context(), locking.Owner{Job: "job"}, tables(t, "a"))
	if err != nil {
		close(land)
		t.Fatal(err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
	close(land)
	other := newLocker(t, connect(t, server.Addr()))
	await(t, "late add", func() bool {
		found, err := other.Inspect(t.Context(), resources(t, "a"))
		return err == nil && len(found) == 1
	})
	lock, err = locker.TryAcquire(t.Context(), locking.Owner{Job: "job"}, tables(t, "a"))
	if err != nil {
		t.Fatalf("its own stray kept it out: %v", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSwapsSurviveABrokenConnection(t *testing.T) {
	for name, fate := range map[string]servertest.Fate{"before": servertest.Cut,
		"after": servertest.CutReply} {
		for _, prefix := range []string{"gets ", "cas "} {
			t.Run(prefix+name, func(t *testing.T) {
				_, proxy, b := throughProxy(t, long)
				if err := b.Add(t.Context(), "k", []byte("1"), lease); err != nil {
					t.Fatal(err)
				}
				proxy.OnRequest(once(prefix, fate))
				if err := b.Renew(t.Context(), "k", []byte("1"), lease); err != nil {
					t.Errorf("renewal: %v", err)
				}
				proxy.OnRequest(once(prefix, fate))
				if err := b.Delete(t.Context(), "k", []byte("1")); err != nil {
					t.Errorf("delete: %v", err)
				}
				if found, err := b.Get(t.Context(), "k"); err != nil || len(found) != 0 {
					t.Errorf("left: %q, %v", found, err)
				}
			})
		}
	}
}

// TestSwapWithLostReplyAndServer loses the reply and then the server.
func TestSwapWithLostReplyAndServer(t *testing.T) {
	_, proxy, b := throughProxy(t, long)
	if err := b.Add(t.Context(), "k", []byte("1"), lease); err != nil {
		t.Fatal(err)
	}
	proxy.OnRequest(func(request []byte) servertest.Fate {
		if bytes.HasPrefix(request, []byte("cas ")) {
			proxy.Refuse(true)
			return servertest.CutReply
		}
		return servertest.Pass
	})
	if err := b.Delete(t.Context(), "k", []byte("1")); !errors.Is(err, locking.ErrUnclear) {
		t.Errorf("got %v, want an unclear outcome", err)
	}
}

func TestSwapsWhoseRepliesTimeOut(t *testing.T) {
	t.Parallel()
	_, proxy, b := throughProxy(t, mixed)
	if err := b.Add(t.Context(), "k", []byte("1"), lease); err != nil {
		t.Fatal(err)
	}
	for name, fate := range map[string]servertest.Fate{"renewal": servertest.LoseReply,
		"delete": servertest.Drop} {
		proxy.OnRequest(once("cas ", fate))
		var err error
		if name == "renewal" {
			err = b.Renew(t.Context(), "k", []byte("1"), lease)
		} else {
			err = b.Delete(t.Context(), "k", []byte("1"))
		}
		if !errors.Is(err, locking.ErrUnclear) {
			t.Errorf("%s: got %v, want an unclear outcome", name, err)
		}
	}
	proxy.OnRequest(once("gets ", servertest.Drop))
	if err := b.Renew(t.Context(), "k", []byte("1"), lease); !errors.Is(err,
		locking.ErrUnavailable) {
		t.Errorf("got %v: nothing was changed, so it was unavailable", err)
	}
}

// TestRestartBreaksPooledConnections fills the pool first, so that many broken
// connections wait in it.
func TestRestartBreaksPooledConnections(t *testing.T) {
	skipWithShort(t)
	const workers = 16
	server := servertest.NewMemcached(t)
	b := open(t, memcached.Options{Servers: []string{server.Addr()}, Timeout: 5 * time.Second})
	locker := newLocker(t, b)
	for round := range 3 {
		if round > 0 {
			if err := server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				for n := range 10 {
					lock, err := locker.TryAcquire(t.Context(), locking.Owner{Job: "job"},
						tables(t, fmt.Sprintf("t%d-%d", i, n)))
					if err != nil {
						t.Errorf("round %d: %v", round, err)
						return
					}
					if err := lock.Release(t.Context()); err != nil {
						t.Errorf("round %d: %v", round, err)
					}
				}
			})
		}
		all.Wait()
	}
}

func TestStoppedServer(t *testing.T) {
	skipWithShort(t)
	server := servertest.NewMemcached(t)
	b := connect(t, server.Addr())
	locker := newLocker(t, b)
	if err := b.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for try := range 2 { // the first meets a pooled connection, the second none
		if err := b.Ping(t.Context()); !errors.Is(err, locking.ErrUnavailable) {
			t.Errorf("ping %d: %v", try, err)
		}
	}
	_, err := locker.TryAcquire(t.Context(), locking.Owner{Job: "job"}, tables(t, "a"))
	if !errors.Is(err, locking.ErrUnavailable) || errors.Is(err, locking.ErrHeld) {
		t.Errorf("lock: %v", err)
	}
	if _, err := locker.Gate(t.Context(), "sales", time.Minute); !errors.Is(err,
		locking.ErrUnavailable) {
		t.Errorf("gate: %v", err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Ping(t.Context()); err != nil {
		t.Errorf("ping of a server that is back: %v", err)
	}
}

func TestPausedServer(t *testing.T) {
	skipWithShort(t)
	server := servertest.NewMemcached(t)
	b := open(t, memcached.Options{Servers: []string{server.Addr()}, Timeout: mixed})
	locker := newLocker(t, b)
	held, err := locker.TryAcquire(t.Context(), locking.Owner{Job: "job"}, tables(t, "held"))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), short)
			defer cancel()
			_, err := locker.TryAcquire(ctx, locking.Owner{Job: "job"}, tables(t, "a"))
			if err == nil || errors.Is(err, locking.ErrHeld) {
				t.Errorf("a paused server gave an answer: %v", err)
			}
		})
	}
	all.Wait()
	abandoned := func() int { return runtime.NumGoroutine() - before }
	for end := time.Now().Add(30 * time.Second); abandoned() > 20; time.Sleep(time.Millisecond) {
		// until the goroutines of the callers have ended
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left of 50 requests with 4 at a time", abandoned())
		}
	}
	if err := held.Release(t.Context()); err == nil || errors.Is(err, locking.ErrMissing) {
		t.Errorf("release: %v", err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	run(t, locker)
	direct := newLocker(t, connect(t, server.Addr()))
	await(t, "removal of what was left behind", func() bool {
		found, err := direct.Inspect(t.Context(), resources(t, "held", "a"))
		return err == nil && len(found) == 0
	})
}

func TestContextEndsARequest(t *testing.T) {
	skipWithShort(t)
	server := servertest.NewMemcached(t)
	b := open(t, memcached.Options{Servers: []string{server.Addr()}, Timeout: time.Hour})
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(stop) })
	if err := b.Add(ctx, "k", []byte("1"), lease); !errors.Is(err, locking.ErrUnclear) ||
		!errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
}

// TestFullServer locks on a full server without evictions.
func TestFullServer(t *testing.T) {
	skipWithShort(t)
	// The growth factor puts all locks into one class of memory, so a full server has no room in
	// any class.
	server := servertest.NewMemcached(t, "-M", "-m", "2", "-f", "4")
	b := connect(t, server.Addr())
	locker := newLocker(t, b)
	before, err := locker.TryAcquire(t.Context(), locking.Owner{Job: "before"}, tables(t, "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	value := bytes.Repeat([]byte("x"), 200)
	keys := fill(t, b, value)
	if err := b.Renew(t.Context(), keys[0], value, lease); !errors.Is(err, locking.ErrFull) {
		t.Errorf("renewal: %v", err)
	}
	if err := before.Release(t.Context()); err != nil { // which makes room for two
		t.Fatalf("release: %v", err)
	}
	wanted := []string{"c", "d", "e", "f", "g", "h"}
	_, err = locker.TryAcquire(t.Context(), locking.Owner{Job: "job"}, tables(t, wanted...))
	if !errors.Is(err, locking.ErrFull) || errors.Is(err, locking.ErrHeld) ||
		errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("lock: %v", err)
	}
	if found, err := locker.Inspect(t.Context(), resources(t, wanted...)); err != nil ||
		len(found) != 0 {
		t.Errorf("left behind: %v, %v", found, err)
	}
	for _, key := range keys[:8] {
		if err := b.Delete(t.Context(), key, value); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	after, err := locker.TryAcquire(t.Context(), locking.Owner{Job: "after"}, tables(t, wanted...))
	if err != nil {
		t.Fatalf("lock on a server with room: %v", err)
	}
	if err := after.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFullServerOfLargeValues stores a value of several chunks, for which memcached has another
// error text.
func TestFullServerOfLargeValues(t *testing.T) {
	skipWithShort(t)
	server := servertest.NewMemcached(t, "-M", "-m", "2")
	b := connect(t, server.Addr())
	value := make([]byte, 900_000)
	for i := range 4 {
		if err := b.Add(t.Context(), fmt.Sprintf("k%d", i), value, lease); err != nil {
			if !errors.Is(err, locking.ErrFull) {
				t.Errorf("add: %v", err)
			}
			return
		}
	}
	t.Error("four values of 900 KB went into 2 MB")
}

// TestItemLimitOfTheServer sets -I below and above the limit of a Memo. Above it, the limit of a
// Memo applies.
func TestItemLimitOfTheServer(t *testing.T) {
	skipWithShort(t)
	small := connect(t, servertest.NewMemcached(t, "-I", "512k").Addr())
	for size, want := range map[int]error{400_000: nil, 600_000: locking.ErrTooLarge} {
		if err := small.Add(t.Context(), fmt.Sprintf("k%d", size), make([]byte, size),
			lease); !errors.Is(err, want) {
			t.Errorf("%d bytes into 512 KiB: got %v, want %v", size, err, want)
		}
	}
	large := connect(t, servertest.NewMemcached(t, "-I", "4m").Addr())
	for extra, want := range []error{nil, locking.ErrTooLarge} {
		if err := large.Add(t.Context(), fmt.Sprintf("k%d", extra),
			make([]byte, locking.MaxValueBytes+extra), lease); !errors.Is(err, want) {
			t.Errorf("%d bytes more than the limit into 4 MiB: got %v, want %v", extra, err,
				want)
		}
	}
}

// fill adds keys until the server has no room, and returns them.
func fill(t *testing.T, b *memcached.Backend, value []byte) (keys []string) {
	t.Helper()
	for {
		key := fmt.Sprintf("filler:%06d", len(keys))
		err := b.Add(t.Context(), key, value, 10*time.Minute)
		if errors.Is(err, locking.ErrFull) {
			return keys
		}
		if err != nil {
			t.Fatalf("after %d keys: %v", len(keys), err)
		}
		keys = append(keys, key)
	}
}

// throughProxy returns a server, a proxy to it and a backend behind that with a timeout.
func throughProxy(t *testing.T, timeout time.Duration) (*servertest.Memcached, *servertest.Proxy,
	*memcached.Backend) {
	t.Helper()
	skipWithShort(t)
	server := servertest.NewMemcached(t)
	proxy := servertest.NewProxy(t, server.Addr())
	return server, proxy, open(t,
		memcached.Options{Servers: []string{proxy.Addr()}, Timeout: timeout})
}

func newLocker(t testing.TB, b locking.Backend) *locking.Locker {
	t.Helper()
	locker, err := locking.New(b,
		locking.Options{Namespace: "test", Lease: lease, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return locker
}

func run(t *testing.T, locker *locking.Locker) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- locker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func tables(t testing.TB, names ...string) []locking.Request {
	t.Helper()
	var requests []locking.Request
	for _, resource := range resources(t, names...) {
		requests = append(requests, locking.Request{Resource: resource, Mode: locking.Exclusive})
	}
	return requests
}

func resources(t testing.TB, names ...string) []locking.Resource {
	t.Helper()
	var list []locking.Resource
	for _, name := range names {
		resource, err := locking.Table(name, "public")
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, resource)
	}
	return list
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it did not happen", what)
		}
	}
}
