package admin

import (
	"context"
	"time"
)

// cacheLifetime is the lifetime of results that are costly to query and change rarely. Open pages
// request them every few seconds.
const cacheLifetime = 15 * time.Second

// cached caches the result of a query. It is safe for concurrent use, and only one caller at a time
// queries the store.
type cached[T any] struct {
	ask func(ctx context.Context, now time.Time) (T, error)

	turn   chan struct{} // of capacity one
	answer T
	at     time.Time // by the store's clock
}

func newCached[T any](ask func(ctx context.Context, now time.Time) (T, error)) *cached[T] {
	return &cached[T]{ask: ask, turn: make(chan struct{}, 1)}
}

// get returns a result that is at most cacheLifetime old at now, by the store's clock. The caller
// must not change it.
func (a *cached[T]) get(ctx context.Context, now time.Time) (answer T, err error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return answer, ctx.Err()
	}
	if age := now.Sub(a.at); !a.at.IsZero() && age >= 0 && age < cacheLifetime {
		return a.answer, nil
	}
	if answer, err = a.ask(ctx, now); err == nil {
		a.answer, a.at = answer, now
	}
	return answer, err
}
