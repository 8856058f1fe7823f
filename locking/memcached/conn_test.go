package memcached_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// TestEachCallGetsItsOwnReplies has many callers on one connection, a third of which give up. The
// replies arrive in pieces, because the proxy delays them.
func TestEachCallGetsItsOwnReplies(t *testing.T) {
	const callers, rounds = 32, 40
	skipWithShort(t)
	proxy := servertest.NewProxy(t, servertest.NewMemcached(t).Addr())
	proxy.Delay(time.Millisecond)
	b := open(t, memcached.Options{Servers: []string{proxy.Addr()}, Timeout: 10 * time.Second})
	var answered, abandoned atomic.Int64
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for round := range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(3) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(1500))*time.Microsecond, cancel)
				}
				key := fmt.Sprintf("k%d-%d", caller, round)
				value := bytes.Repeat([]byte(key), 1+rand.IntN(200))
				added := b.AddAll(ctx, []locking.Item{{Key: key, Value: value}}, lease)[0]
				found, err := b.Get(ctx, key, "missing")
				cancel()
				if added.Err != nil || err != nil {
					abandoned.Add(1)
					if !errors.Is(errors.Join(added.Err, err), context.Canceled) {
						t.Errorf("%s: add %v, get %v", key, added.Err, err)
					}
					continue
				}
				answered.Add(1)
				if len(found) != 1 || !bytes.Equal(found[key], value) {
					t.Errorf("%s: got %d values, %.40q", key, len(found), found[key])
				}
			}
		})
	}
	all.Wait()
	if answered.Load() == 0 || abandoned.Load() == 0 {
		t.Errorf("%d requests were answered and %d abandoned, want some of each",
			answered.Load(), abandoned.Load())
	}
}

// TestRequestsAreSentTogether counts the pieces that many requests need, and the commands that
// read: memcached sends its replies after each of them.
func TestRequestsAreSentTogether(t *testing.T) {
	_, proxy, b := throughProxy(t, long)
	if err := b.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	var pieces, reads atomic.Int64
	first, more := make(chan struct{}), make(chan struct{})
	proxy.OnRequest(func(text []byte) servertest.Fate {
		reads.Add(int64(bytes.Count(text, []byte("gets "))))
		if pieces.Add(1) == 1 {
			close(first)
			<-more
		}
		return servertest.Pass
	})
	items := make([]locking.Item, 100)
	for i := range items {
		items[i] = locking.Item{Key: fmt.Sprint("k", i), Value: []byte("1")}
	}
	results := make(chan []locking.Added, 1)
	go func() { results <- b.AddAll(t.Context(), items, lease) }()
	<-first
	close(more)
	for i, added := range <-results {
		if added.Err != nil {
			t.Errorf("k%d: %v", i, added.Err)
		}
		items[i].Version = added.Version
	}
	if n := pieces.Load(); n != 1 {
		t.Errorf("100 adds took %d pieces, want 1", n)
	}
	if n := reads.Load(); n != 1 {
		t.Errorf("100 adds took %d commands that read, want 1", n)
	}
	for i, err := range b.DeleteAll(t.Context(), items) {
		if err != nil {
			t.Errorf("k%d: %v", i, err)
		}
	}
	if n := pieces.Load(); n != 2 {
		t.Errorf("100 adds and their removal took %d pieces, want 2", n)
	}
}

// TestLostReplyEndsTheConnection loses one reply, and with it all later ones of the connection.
func TestLostReplyEndsTheConnection(t *testing.T) {
	t.Parallel()
	_, proxy, b := throughProxy(t, mixed)
	proxy.OnRequest(once("add ", servertest.LoseReply))
	if err := b.Add(t.Context(), "k", []byte("1"), lease); !errors.Is(err, locking.ErrUnclear) {
		t.Fatalf("got %v, want an unclear outcome", err)
	}
	start := time.Now()
	found, err := b.Get(t.Context(), "k")
	if err != nil || string(found["k"]) != "1" {
		t.Errorf("the next request: %q, %v", found["k"], err)
	}
	if took := time.Since(start); took > mixed {
		t.Errorf("the next request took %s, so it waited on the old connection", took)
	}
}

// TestFullServerKeepsLocksOfOthers adds keys that are held to a full server. The command ms of the
// meta protocol would remove the item of the holder.
func TestFullServerKeepsLocksOfOthers(t *testing.T) {
	skipWithShort(t)
	b := connect(t, servertest.NewMemcached(t, "-M", "-m", "2", "-f", "4").Addr())
	value := bytes.Repeat([]byte("x"), 200)
	keys := fill(t, b, value)[:50]
	for _, key := range keys {
		err := b.Add(t.Context(), key, []byte(strings.Repeat("y", 200)), lease)
		if !errors.Is(err, locking.ErrFull) && !errors.Is(err, locking.ErrNotStored) {
			t.Errorf("add of a held key: %v", err)
		}
		if err := b.Renew(t.Context(), key, []byte("other"), lease); !errors.Is(err,
			locking.ErrNotOwner) {
			t.Errorf("renewal by another owner: %v", err)
		}
	}
	found, err := b.Get(t.Context(), keys...)
	if err != nil || len(found) != len(keys) {
		t.Fatalf("%d of %d locks are left: %v", len(found), len(keys), err)
	}
	for key, found := range found {
		if !bytes.Equal(found, value) {
			t.Errorf("%s has another value: %.10q", key, found)
		}
	}
}

// TestClose ends requests and goroutines, and refuses later requests.
func TestClose(t *testing.T) {
	skipWithShort(t)
	server, before := servertest.NewMemcached(t), runtime.NumGoroutine()
	b := open(t, memcached.Options{Servers: []string{server.Addr()}, Timeout: time.Hour})
	if err := b.Add(t.Context(), "k", []byte("1"), lease); err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Resume(); err != nil {
			t.Error(err)
		}
	})
	waiting := make(chan error)
	go func() {
		_, err := b.Get(t.Context(), "k")
		waiting <- err
	}()
	go func() { waiting <- b.Add(t.Context(), "other", []byte("1"), lease) }()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-waiting; !errors.Is(err, locking.ErrUnavailable) &&
			!errors.Is(err, locking.ErrUnclear) {
			t.Errorf("a request at the time of Close: %v", err)
		}
	}
	if err := b.Add(t.Context(), "k", nil, lease); !errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("add after Close: %v", err)
	}
	if err := b.Ping(t.Context()); !errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("ping after Close: %v", err)
	}
	await(t, "end of the goroutines", func() bool { return runtime.NumGoroutine() <= before })
}
