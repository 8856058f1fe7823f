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

	"github.com/holdfast-dev/holdfast/internal/servertest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
	"github.com/holdfast-dev/holdfast/locking/memory"
	"github.com/holdfast-dev/holdfast/retry"
)

const benchWorkers = 16

// pair is an acquire and a release.
type pair func() error

// BenchmarkLock compares a lock's acquire and release with the bare commands,
// add, get and delete for each key, on the same server: alone, with grants in
// memory behind, and grants in memory without entries. Those of a contended
// benchmark want the same tables and wait for each other, a millisecond at a
// time; else nobody else wants them.
func BenchmarkLock(b *testing.B) {
	skipWithShort(b)
	server := servertest.NewMemcached(b)
	backend := open(b, memcached.Options{Servers: []string{server.Addr()}, MaxIdle: benchWorkers})
	client := memcache.New(server.Addr())
	client.MaxIdleConns = benchWorkers
	b.Cleanup(func() { client.Close() })
	alone, granted, without := newLocker(b, backend), grantedLocker(b, backend), grantedLocker(b, nil)
	makers := []struct {
		name string
		pair func(b *testing.B, owner string, n int) pair
	}{
		{"gomemcache", func(_ *testing.B, owner string, n int) pair { return barePair(client, owner, n) }},
		{"holdfast", func(b *testing.B, owner string, n int) pair { return lockPair(b, alone, owner, n) }},
		{"holdfast+grants", func(b *testing.B, owner string, n int) pair { return lockPair(b, granted, owner, n) }},
		{"grants", func(b *testing.B, owner string, n int) pair { return lockPair(b, without, owner, n) }},
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
				inParallel(b, func(worker int64) pair { return m.pair(b, fmt.Sprint("w", worker), n) })
			})
		}
		for _, m := range makers {
			b.Run(fmt.Sprintf("%d/%dcontend/%s", n, benchWorkers, m.name), func(b *testing.B) {
				inParallel(b, func(int64) pair { return m.pair(b, "all", n) })
			})
		}
	}
}

func inParallel(b *testing.B, worker func(n int64) pair) {
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

// grantedLocker returns a locker with grants in memory, whose Run goes on
// until the benchmark ends.
func grantedLocker(b *testing.B, backend locking.Backend) *locking.Locker {
	b.Helper()
	locker, err := locking.New(backend, locking.Options{
		Namespace: "granted", Lease: lease, Grants: memory.NewGrants(), Session: locking.Session{Replica: "replica-1"}, Log: zerolog.Nop(),
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

// patient is how those wait who contend.
var patient = retry.Policy{Elapsed: time.Minute, Delay: time.Millisecond, Jitter: 1}

// lockPair returns an acquire and release of n tables of an owner.
func lockPair(b *testing.B, locker *locking.Locker, owner string, n int) pair {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%s_t%d", owner, i))
	}
	requests := tables(b, names...)
	who := locking.Owner{Replica: "replica-1", Job: "rollup-sales", Run: "01900000-0000-7000-8000-000000000000"}
	return func() error {
		lock, err := locker.Acquire(b.Context(), who, requests, patient)
		if err != nil {
			return err
		}
		return lock.Release(b.Context())
	}
}

// barePair returns the commands that a lock of n keys needs at least.
func barePair(client *memcache.Client, owner string, n int) pair {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("bare:%s_t%d", owner, i))
	}
	value := make([]byte, 180)
	return func() error {
		return retry.Do(context.Background(), patient, func(context.Context) error { return addGetDelete(client, keys, value) },
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
