package records

import (
	"context"
	"sync"
	"time"
)

// CacheLifetime is the lifetime of results that are costly to query and change rarely. Open pages
// request them every few seconds.
const CacheLifetime = 15 * time.Second

// QuietLifetime is the lifetime of results that take a tenth of a second to query, for the first
// request after a quiet time.
const QuietLifetime = time.Minute

// quietShare bounds how often a result of a quiet cache is renewed: the time between two queries is
// at least quietShare times the duration of the first one, but not more than half of the lifetime.
// So a query of up to 0.3 s takes at most one per cent of the time.
const quietShare = 100

// renewTimeout bounds a query that no request waits for.
const renewTimeout = 3 * time.Second

// Cached caches the result of a query. It is safe for concurrent use, and only one caller at a time
// queries the store.
type Cached[T any] struct {
	lifetime time.Duration
	renewal  time.Duration // the age from which Get renews a result
	quiet    bool          // costly results are renewed less often: see quietShare
	ask      func(ctx context.Context, now time.Time) (T, error)

	turn chan struct{} // of capacity one; taken by the caller that queries

	mu     sync.Mutex
	answer T
	at     time.Time     // by the store's clock
	took   time.Duration // the query
}

// NewCached returns a cache of the results of ask, each for lifetime.
func NewCached[T any](lifetime time.Duration,
	ask func(ctx context.Context, now time.Time) (T, error)) *Cached[T] {
	return &Cached[T]{lifetime: lifetime, renewal: lifetime / 2, ask: ask,
		turn: make(chan struct{}, 1)}
}

// NewQuietCached returns a cache of results that are renewed as if they had the lifetime
// CacheLifetime, or less often if the query takes long. Only after a time without requests they are
// up to QuietLifetime old.
func NewQuietCached[T any](ask func(ctx context.Context, now time.Time) (T, error)) *Cached[T] {
	a := NewCached(QuietLifetime, ask)
	a.renewal, a.quiet = CacheLifetime/2, true
	return a
}

// Get returns a result that is at most the lifetime old at now, by the store's clock. The caller
// must not change it. If the result is older than half of the lifetime, Get also begins to query
// the next one. So pages that are requested often do not wait for a query.
func (a *Cached[T]) Get(ctx context.Context, now time.Time) (answer T, err error) {
	answer, age, ok := a.cached(now)
	if ok {
		if age >= a.renewAt() {
			a.Renew(ctx, now)
		}
		return answer, nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return answer, ctx.Err()
	}
	if answer, _, ok = a.cached(now); ok { // another caller has queried it
		return answer, nil
	}
	return a.query(ctx, now)
}

// Latest returns the last result if it is younger than lifetime, and false if there is none. It
// never waits for a query. If the result has at least the age renewal, it begins to query the next
// one in the background.
func (a *Cached[T]) Latest(ctx context.Context, now time.Time,
	renewal, lifetime time.Duration) (answer T, ok bool) {
	a.mu.Lock()
	answer, age := a.answer, now.Sub(a.at)
	ok = !a.at.IsZero() && age >= 0 && age < lifetime
	a.mu.Unlock()
	if ok && age >= renewal {
		a.Renew(ctx, now)
	}
	return answer, ok
}

// Soon returns a result as Latest does. If there is none, Soon begins to query it in the
// background, and waits for it for a third of the time until the deadline of ctx. So a page can
// leave out a result that takes long, and a later request finds it.
func (a *Cached[T]) Soon(ctx context.Context, now time.Time,
	renewal, lifetime time.Duration) (answer T, ok bool) {
	if answer, ok = a.Latest(ctx, now, renewal, lifetime); ok {
		return answer, true
	}
	a.Renew(ctx, now)
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/3)
		defer cancel()
	}
	select {
	case a.turn <- struct{}{}: // the query has ended
		<-a.turn
	case <-ctx.Done():
	}
	return a.Latest(ctx, now, renewal, lifetime)
}

// Renew queries the next result in the background, unless another caller does. If the query fails,
// the caller that finds no result queries again and gets the error.
func (a *Cached[T]) Renew(ctx context.Context, now time.Time) {
	select {
	case a.turn <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-a.turn }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewTimeout)
		defer cancel()
		_, _ = a.query(ctx, now) // the next caller queries again and gets the error
	}()
}

// query asks for a result and caches it. The caller has the turn.
func (a *Cached[T]) query(ctx context.Context, now time.Time) (T, error) {
	began := time.Now()
	answer, err := a.ask(ctx, now)
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.answer, a.at, a.took = answer, now, time.Since(began)
	}
	return answer, err
}

// renewAt returns the age from which Get renews the result.
func (a *Cached[T]) renewAt() time.Duration {
	if !a.quiet {
		return a.renewal
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return min(max(a.renewal, quietShare*a.took), a.lifetime/2)
}

// cached returns the result and its age, and whether it can be used at now.
func (a *Cached[T]) cached(now time.Time) (answer T, age time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	age = now.Sub(a.at)
	return a.answer, age, !a.at.IsZero() && age >= 0 && age < a.lifetime
}
