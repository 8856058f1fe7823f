package memcached_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/holdfast-dev/holdfast/internal/servertest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

const benchWorkers = 16

// BenchmarkLock compares a lock's acquire and release with the bare commands,
// add, get and delete for each key, on the same server.
func BenchmarkLock(b *testing.B) {
	skipWithShort(b)
	server := servertest.NewMemcached(b)
	backend := open(b, memcached.Options{Servers: []string{server.Addr()}, MaxIdle: benchWorkers})
	locker := newLocker(b, backend)
	client := memcache.New(server.Addr())
	client.MaxIdleConns = benchWorkers
	b.Cleanup(func() { client.Close() })
	for _, n := range []int{1, 4, 8} {
		pairs := map[string]func(b *testing.B, worker int64) func() error{
			"holdfast":   func(b *testing.B, worker int64) func() error { return lockPair(b, locker, worker, n) },
			"gomemcache": func(_ *testing.B, worker int64) func() error { return barePair(client, worker, n) },
		}
		for _, what := range []string{"gomemcache", "holdfast"} {
			b.Run(fmt.Sprintf("%d/1worker/%s", n, what), func(b *testing.B) {
				pair := pairs[what](b, 0)
				for b.Loop() {
					if err := pair(); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%d/%dworkers/%s", n, benchWorkers, what), func(b *testing.B) {
				var worker atomic.Int64
				b.SetParallelism(max(1, benchWorkers/2))
				b.RunParallel(func(p *testing.PB) {
					pair := pairs[what](b, worker.Add(1))
					for p.Next() {
						if err := pair(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// lockPair returns an acquire and release of n tables that nobody else wants.
func lockPair(b *testing.B, locker *locking.Locker, worker int64, n int) func() error {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("w%d_t%d", worker, i))
	}
	requests := tables(b, names...)
	owner := locking.Owner{Replica: "replica-1", Job: "rollup-sales", Run: "01900000-0000-7000-8000-000000000000"}
	return func() error {
		lock, err := locker.TryAcquire(b.Context(), owner, requests)
		if err != nil {
			return err
		}
		return lock.Release(b.Context())
	}
}

// barePair returns the commands that a lock of n keys needs at least.
func barePair(client *memcache.Client, worker int64, n int) func() error {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("bare:w%d_t%d", worker, i))
	}
	value := make([]byte, 180)
	return func() error {
		for _, key := range keys {
			if err := client.Add(&memcache.Item{Key: key, Value: value, Expiration: 30}); err != nil {
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
}

// BenchmarkMemo compares a Memo's answer where the value is stored with the
// bare command, a get of as many bytes, on the same server. Each worker has a
// key of its own: those of one key would share an answer.
func BenchmarkMemo(b *testing.B) {
	skipWithShort(b)
	server := servertest.NewMemcached(b)
	memo, err := locking.NewMemo(newLocker(b, open(b, memcached.Options{Servers: []string{server.Addr()}, MaxIdle: benchWorkers})), locking.Owner{})
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
				var worker atomic.Int64
				b.SetParallelism(max(1, benchWorkers/2))
				b.SetBytes(int64(size))
				b.RunParallel(func(p *testing.PB) {
					hit := hits[what](b, worker.Add(1))
					for p.Next() {
						if err := hit(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

var errComputed = errors.New("the value was not stored")

// memoHit returns a call that is answered by a stored value.
func memoHit(b *testing.B, memo *locking.Memo, worker int64, size int) func() error {
	key := fmt.Sprintf("%d/%d", size, worker)
	if _, err := memo.Do(b.Context(), key, time.Hour, func(context.Context) ([]byte, error) { return make([]byte, size), nil }); err != nil {
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

// bareHit returns the one command that an answer needs.
func bareHit(b *testing.B, client *memcache.Client, worker int64, size int) func() error {
	key := fmt.Sprintf("bare:%d/%d", size, worker)
	if err := client.Set(&memcache.Item{Key: key, Value: make([]byte, size), Expiration: 3600}); err != nil {
		b.Error(err)
	}
	return func() error {
		_, err := client.Get(key)
		return err
	}
}
