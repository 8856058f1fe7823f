package admin

import (
	"context"
	"time"
)

// cacheLifetime is how long an answer is kept that takes the store some effort and
// changes little: pages that are open on many screens ask every few seconds.
const cacheLifetime = 15 * time.Second

// cached keeps the last answer to a question. It may be used concurrently;
// of several who ask at once, one asks the store.
type cached[T any] struct {
	ask func(ctx context.Context, now time.Time) (T, error)

	turn   chan struct{} // of one
	answer T
	at     time.Time // by the store's clock
}

func newCached[T any](ask func(ctx context.Context, now time.Time) (T, error)) *cached[T] {
	return &cached[T]{ask: ask, turn: make(chan struct{}, 1)}
}

// get returns an answer that is not older than cacheLifetime at now, by the store's
// clock. The caller must not change it.
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
