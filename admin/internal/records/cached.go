package records

import (
	"context"
	"errors"
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

const (
	// renewTimeout bounds a query in the background.
	renewTimeout = 3 * time.Second
	// longTimeout bounds a query of Soon. On a busy machine, it takes longer than a request may.
	longTimeout = 10 * time.Second
)

// errNoAnswer is the error of a query that has panicked.
var errNoAnswer = errors.New("the query has no answer")

// Cached caches the result of a query. It is safe for concurrent use, and only one query is in
// progress at a time.
type Cached[T any] struct {
	lifetime time.Duration
	renewal  time.Duration // the age from which Get renews a result
	quiet    bool          // costly results are renewed less often: see quietShare
	ask      func(ctx context.Context, now time.Time) (T, error)

	mu      sync.Mutex
	answer  T
	at      time.Time     // by the store's clock
	took    time.Duration // the query
	running *query[T]     // nil: no query is in progress
}

// query is a query in progress. The other fields are set when done is closed.
type query[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// NewCached returns a cache of the results of ask, each for lifetime.
func NewCached[T any](lifetime time.Duration,
	ask func(ctx context.Context, now time.Time) (T, error)) *Cached[T] {
	return &Cached[T]{lifetime: lifetime, renewal: lifetime / 2, ask: ask}
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
	for {
		answer, age, ok := a.cached(now, a.lifetime)
		if ok {
			if age >= a.renewAt() {
				a.renew(ctx, now, renewTimeout)
			}
			return answer, nil
		}
		q, mine := a.begin()
		if mine {
			a.run(ctx, now, q)
			return q.answer, q.err
		}
		select {
		case <-q.done:
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
}

// Soon returns a result that is younger than lifetime. If there is none, it begins to query one in
// the background, and waits for it for a tenth of the time until the deadline of ctx, or without a
// limit if ctx has no deadline. If the query has not ended by then, or has exceeded its own limit,
// Soon returns false, and a later call may find the result. If the query fails for another reason,
// Soon returns its error. If the result has at least the age renewal, Soon returns it and begins to
// query the next one in the background.
func (a *Cached[T]) Soon(ctx context.Context, now time.Time,
	renewal, lifetime time.Duration) (answer T, ok bool, err error) {
	answer, age, ok := a.cached(now, lifetime)
	if ok {
		if age >= renewal {
			a.renew(ctx, now, longTimeout)
		}
		return answer, true, nil
	}
	q := a.renew(ctx, now, longTimeout)
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/10)
		defer cancel()
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		return answer, false, nil
	}
	// The query may be that of another caller, who has gone.
	if errors.Is(q.err, context.DeadlineExceeded) || errors.Is(q.err, context.Canceled) {
		return answer, false, nil
	}
	return q.answer, q.err == nil, q.err
}

// renew queries the next result in the background, at most for a time, unless a query is in
// progress. It returns the query.
func (a *Cached[T]) renew(ctx context.Context, now time.Time, timeout time.Duration) *query[T] {
	q, mine := a.begin()
	if mine {
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
			defer cancel()
			a.run(ctx, now, q)
		}()
	}
	return q
}

// begin returns the query in progress. If there is none, the caller has to run the one that begin
// returns.
func (a *Cached[T]) begin() (q *query[T], mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running == nil {
		a.running, mine = &query[T]{done: make(chan struct{}), err: errNoAnswer}, true
	}
	return a.running, mine
}

// run asks for a result and caches it.
func (a *Cached[T]) run(ctx context.Context, now time.Time, q *query[T]) {
	defer func() { // also if ask panics
		a.mu.Lock()
		defer a.mu.Unlock()
		a.running = nil
		close(q.done)
	}()
	began := time.Now()
	q.answer, q.err = a.ask(ctx, now)
	if q.err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.answer, a.at, a.took = q.answer, now, time.Since(began)
	}
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

// cached returns the result and its age, and whether it is younger than lifetime at now.
func (a *Cached[T]) cached(now time.Time,
	lifetime time.Duration) (answer T, age time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	age = now.Sub(a.at)
	return a.answer, age, !a.at.IsZero() && age >= 0 && age < lifetime
}
