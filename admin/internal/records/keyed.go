package records

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxKeyed bounds the results of one Keyed.
const maxKeyed = 16

// Keyed caches the results of a query that has a parameter, for the parameters that were used last.
// It is safe for concurrent use.
type Keyed[K comparable, T any] struct {
	lifetime time.Duration
	ask      func(ctx context.Context, key K, now time.Time) (T, error)

	mu      sync.Mutex
	results []keyedResult[K, T] // the last used one is last
}

type keyedResult[K comparable, T any] struct {
	key    K
	cached *Cached[T]
}

// NewKeyed returns a cache of the results of ask, each for lifetime.
func NewKeyed[K comparable, T any](lifetime time.Duration,
	ask func(ctx context.Context, key K, now time.Time) (T, error)) *Keyed[K, T] {
	return &Keyed[K, T]{lifetime: lifetime, ask: ask}
}

// Get returns a result for the key, as Cached.Get does.
func (c *Keyed[K, T]) Get(ctx context.Context, key K, now time.Time) (T, error) {
	return c.of(key).Get(ctx, now)
}

// of returns the cache of a key, and forgets the one that was not used for longest if there are too
// many.
func (c *Keyed[K, T]) of(key K) *Cached[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	result := keyedResult[K, T]{key: key}
	place := slices.IndexFunc(c.results,
		func(r keyedResult[K, T]) bool { return r.key == key })
	switch {
	case place >= 0:
		result = c.results[place]
		c.results = slices.Delete(c.results, place, place+1)
	default:
		result.cached = NewCached(c.lifetime, func(ctx context.Context, now time.Time) (T, error) {
			return c.ask(ctx, key, now)
		})
		if len(c.results) == maxKeyed {
			c.results = slices.Delete(c.results, 0, 1)
		}
	}
	c.results = append(c.results, result)
	return result.cached
}
