package postgres

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/locking"
)

// BenchmarkGrants measures callers that acquire and release their own locks on paths of three
// levels: each in its own call, or all in one call as a Locker does. It reports locks per second
// and the median duration of each call.
func BenchmarkGrants(b *testing.B) {
	for _, callers := range []int{1, 16} {
		for _, resources := range []int{1, 4, 8} {
			b.Run(fmt.Sprintf("single/callers=%d/resources=%d", callers, resources),
				func(b *testing.B) {
					newCourt(b).single(b, callers, resources)
				})
		}
	}
	for _, resources := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("batched/callers=16/resources=%d", resources), func(b *testing.B) {
			newCourt(b).batched(b, 16, resources)
		})
	}
}

// BenchmarkGrantsBesideALongTransaction acquires and releases one name repeatedly, while a long
// transaction retains all deleted rows.
func BenchmarkGrantsBesideALongTransaction(b *testing.B) {
	for _, open := range []bool{false, true} {
		b.Run(fmt.Sprintf("open=%v", open), func(b *testing.B) {
			c := newCourt(b)
			if open {
				tx, err := c.store.views.BeginTx(b.Context(),
					pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
				if err != nil {
					b.Fatal(err)
				}
				defer tx.Rollback(b.Context()) //nolint:errcheck // it wrote nothing
				if _, err := tx.Exec(b.Context(),
					"SELECT count(*) FROM holdfast.grants"); err != nil {
					b.Fatal(err)
				}
			}
			c.single(b, 1, 1)
		})
	}
}

// grantBench is a store and a session whose locks are measured.
type grantBench struct {
	store    *Store
	session  uuid.UUID
	mu       sync.Mutex
	granted  []time.Duration
	released []time.Duration
}

func newCourt(b *testing.B) *grantBench {
	store, err := Open(b.Context(),
		Options{URL: database(b), MaxConnections: 16, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(store.Close)
	c := &grantBench{store: store, session: uuid.New()}
	if err := store.Grants().OpenSession(b.Context(),
		locking.Session{ID: c.session, Replica: "a", TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	return c
}

// lockRequestOf returns the caller's next lock.
func lockRequestOf(b *testing.B, caller, resources int) locking.GrantRequest {
	keys := make([]string, resources)
	for i := range keys {
		keys[i] = fmt.Sprintf("path:customers/%d/file-%d", caller, i)
	}
	return lockRequest(b, keys...)
}

func (c *grantBench) single(b *testing.B, callers, resources int) {
	for caller := range callers {
		c.lock(b, lockRequestOf(b, caller, resources)) // fences, prepared statements
	}
	c.granted, c.released = nil, nil
	b.ResetTimer()
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := caller; i < b.N; i += callers {
				c.lock(b, lockRequestOf(b, caller, resources))
			}
		})
	}
	all.Wait()
	c.report(b)
}

func (c *grantBench) batched(b *testing.B, callers, resources int) {
	for i := 0; i < b.N; i += callers {
		lockRequests := make([]locking.GrantRequest, callers)
		for caller := range lockRequests {
			lockRequests[caller] = lockRequestOf(b, caller, resources)
		}
		c.lock(b, lockRequests...)
		if i == 0 {
			c.granted, c.released = nil, nil
			b.ResetTimer()
		}
	}
	c.report(b)
}

// lock acquires the locks in one call and releases them in another.
func (c *grantBench) lock(b *testing.B, lockRequests ...locking.GrantRequest) {
	start := time.Now()
	results, err := c.store.Grants().Grant(b.Context(), c.session, lockRequests)
	if err != nil {
		b.Error(err)
		return
	}
	granted := time.Now()
	tokens := make([]locking.Token, len(results))
	for i, r := range results {
		tokens[i] = r.Token
	}
	released, err := c.store.Grants().Release(b.Context(), tokens)
	if err != nil || slices.ContainsFunc(released, notDone) {
		b.Errorf("released %v (%v), want all", released, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.granted, c.released = append(c.granted, granted.Sub(start)),
		append(c.released, time.Since(granted))
}

func notDone(r locking.ReleaseResult) bool { return r != locking.ReleaseDone }

func (c *grantBench) report(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "locks/s")
	for name, took := range map[string][]time.Duration{"p50-grant-µs": c.granted,
		"p50-release-µs": c.released} {
		slices.Sort(took)
		if len(took) > 0 {
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), name)
		}
	}
	b.ReportMetric(0, "ns/op")
}
