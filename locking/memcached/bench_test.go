package memcached_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
	"github.com/holdfast-dev/holdfast/locking/memory"
	"github.com/holdfast-dev/holdfast/retry"
)

const benchWorkers = 16

// BenchmarkLock compares acquire and release of a lock with the bare commands add, get and delete
// for each key, on the same server: alone, with grants in memory, and with grants in memory without
// advisory locks. The callers of a contended benchmark want the same tables and wait for each
// other, a millisecond at a time. The others want different tables.
func BenchmarkLock(b *testing.B) {
	skipWithShort(b)
	server := servertest.NewMemcached(b)
	backend := open(b, memcached.Options{Servers: []string{server.Addr()}})
	client := memcache.New(server.Addr())
	client.MaxIdleConns = benchWorkers
	b.Cleanup(func() { client.Close() })
	alone, granted, without := newLocker(b, backend), grantedLocker(b, backend),
		grantedLocker(b, nil)
	makers := []struct {
		name string
		pair func(b *testing.B, owner string, n int) func() error
	}{
		{"gomemcache", func(_ *testing.B, owner string, n int) func() error { return barePair(client, owner, n) }},
		{"holdfast", func(b *testing.B, owner string, n int) func() error { return lockPair(b, alone, owner, n) }},
		{"holdfast+grants", func(b *testing.B, owner string, n int) func() error { return lockPair(b, granted, owner, n) }},
		{"grants", func(b *testing.B, owner string, n int) func() error { return lockPair(b, without, owner, n) }},
	}
	for _, n := range []int{1, 4, 8} {
		for _, m := range makers {
			b.Run(fmt.Sprintf("%d/1worker/%s", n, m.name), func(b *testing.B) {
				lock := m.pair(b, "w0", n)
				for b.Loop() {
					if err := lock(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		for _, m := range makers {
			b.Run(fmt.Sprintf("%d/%dworkers/%s", n, benchWorkers, m.name), func(b *testing.B) {
				inParallel(b, func(worker int64) func() error {
					return m.pair(b, fmt.Sprint("w", worker), n)
				})
			})
		}
		for _, m := range makers {
			b.Run(fmt.Sprintf("%d/%dcontend/%s", n, benchWorkers, m.name), func(b *testing.B) {
				inParallel(b, func(int64) func() error { return m.pair(b, "all", n) })
			})
		}
	}
}

func inParallel(b *testing.B, worker func(n int64) func() error) {
	b.Helper()
	var workers atomic.Int64
	b.SetParallelism(max(1, benchWorkers/runtime.GOMAXPROCS(0)))
	b.RunParallel(func(p *testing.PB) {
		lock := worker(workers.Add(1))
		for p.Next() {
			if err := lock(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// grantedLocker returns a locker with grants in memory that runs until the benchmark ends.
func grantedLocker(b *testing.B, backend locking.Backend) *locking.Locker {
	b.Helper()
	locker, err := locking.New(backend, locking.Options{
		Namespace: "granted", Lease: lease, Grants: memory.NewGrants(),
		Session: locking.Session{Replica: "replica-1"}, Log: zerolog.Nop(),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- locker.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	if err := locker.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	return locker
}

// patient is the wait policy of contending callers.
var patient = retry.Policy{Elapsed: time.Minute, Delay: time.Millisecond, Jitter: 1}

// lockPair returns an acquire and release of n tables of an owner.
func lockPair(b *testing.B, locker *locking.Locker, owner string, n int) func() error {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%s_t%d", owner, i))
	}
	requests := tables(b, names...)
	holder := locking.Owner{Replica: "replica-1", Job: "rollup-sales",
		Run: "01900000-0000-7000-8000-000000000000"}
	return func() error {
		lock, err := locker.Acquire(b.Context(), holder, requests, patient)
		if err != nil {
			return err
		}
		return lock.Release(b.Context())
	}
}

// barePair returns the minimal commands for a lock of n keys.
func barePair(client *memcache.Client, owner string, n int) func() error {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("bare:%s_t%d", owner, i))
	}
	value := make([]byte, 180)
	return func() error {
		return retry.Do(context.Background(), patient, func(context.Context) error {
			return addGetDelete(client, keys, value)
		},
			retry.If(func(err error) bool { return errors.Is(err, memcache.ErrNotStored) }))
	}
}

func addGetDelete(client *memcache.Client, keys []string, value []byte) error {
	for i, key := range keys {
		err := client.Add(&memcache.Item{Key: key, Value: value, Expiration: 30})
		if err != nil {
			for _, added := range keys[:i] {
				err = errors.Join(err, client.Delete(added))
			}
			return err
		}
	}
	for _, key := range keys {
		if _, err := client.Get(key); err != nil {
			return err
		}
		if err := client.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkMemo compares the time of a Memo for a stored value with the bare command, a get of as
// many bytes, on the same server. Each worker has its own key, because callers of one key would
// share an answer.
func BenchmarkMemo(b *testing.B) {
	skipWithShort(b)
	server := servertest.NewMemcached(b)
	memo, err := locking.NewMemo(
		newLocker(b, open(b, memcached.Options{Servers: []string{server.Addr()}})),
		locking.Owner{})
	if err != nil {
		b.Fatal(err)
	}
	client := memcache.New(server.Addr())
	client.MaxIdleConns = benchWorkers
	b.Cleanup(func() { client.Close() })
	for _, size := range []int{1_000, 30_000, locking.MaxMemoBytes} {
		hits := map[string]func(b *testing.B, worker int64) func() error{
			"holdfast":   func(b *testing.B, worker int64) func() error { return memoHit(b, memo, worker, size) },
			"gomemcache": func(b *testing.B, worker int64) func() error { return bareHit(b, client, worker, size) },
		}
		for _, what := range []string{"gomemcache", "holdfast"} {
			b.Run(fmt.Sprintf("%dB/1worker/%s", size, what), func(b *testing.B) {
				hit := hits[what](b, 0)
				b.SetBytes(int64(size))
				for b.Loop() {
					if err := hit(); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%dB/%dworkers/%s", size, benchWorkers, what), func(b *testing.B) {
				b.SetBytes(int64(size))
				inParallel(b, func(worker int64) func() error { return hits[what](b, worker) })
			})
		}
	}
}

var errComputed = errors.New("the value was not stored")

// memoHit returns a call that returns a stored value.
func memoHit(b *testing.B, memo *locking.Memo, worker int64, size int) func() error {
	key := fmt.Sprintf("%d/%d", size, worker)
	if _, err := memo.Do(b.Context(), key, time.Hour, func(context.Context) ([]byte, error) {
		return make([]byte, size), nil
	}); err != nil {
		b.Error(err)
	}
	never := func(context.Context) ([]byte, error) { return nil, errComputed }
	return func() error {
		value, err := memo.Do(b.Context(), key, time.Hour, never)
		if err == nil && len(value) != size {
			return fmt.Errorf("%d bytes of %d", len(value), size)
		}
		return err
	}
}

// bareHit returns the one command that memoHit needs.
func bareHit(b *testing.B, client *memcache.Client, worker int64, size int) func() error {
	key := fmt.Sprintf("bare:%d/%d", size, worker)
	if err := client.Set(&memcache.Item{Key: key, Value: make([]byte, size),
		Expiration: 3600}); err != nil {
		b.Error(err)
	}
	return func() error {
		_, err := client.Get(key)
		return err
	}
}
