package records

import (
	"context"
	"time"
)

// CacheLifetime is the lifetime of results that are costly to query and change rarely. Open pages
// request them every few seconds.
const CacheLifetime = 15 * time.Second

// Cached caches the result of a query. It is safe for concurrent use, and only one caller at a time
// queries the store.
type Cached[T any] struct {
	lifetime time.Duration
	ask      func(ctx context.Context, now time.Time) (T, error)

	turn   chan struct{} // of capacity one
	answer T
	at     time.Time // by the store's clock
}

// NewCached returns a cache of the results of ask, each for lifetime.
func NewCached[T any](lifetime time.Duration,
	ask func(ctx context.Context, now time.Time) (T, error)) *Cached[T] {
	return &Cached[T]{lifetime: lifetime, ask: ask, turn: make(chan struct{}, 1)}
}

// Get returns a result that is at most the lifetime old at now, by the store's clock. The caller
// must not change it.
func (a *Cached[T]) Get(ctx context.Context, now time.Time) (answer T, err error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return answer, ctx.Err()
	}
	if age := now.Sub(a.at); !a.at.IsZero() && age >= 0 && age < a.lifetime {
		return a.answer, nil
	}
	if answer, err = a.ask(ctx, now); err == nil {
		a.answer, a.at = answer, now
	}
	return answer, err
}
