package lockhistory

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// workload locks a small tree of names in all modes. It writes through the fence while it holds a
// lock, and also afterwards, which the fence must refuse. Its transactions ignore the end of their
// lock, so that only the fence stops them.
type workload struct {
	locker  *Locker
	replica string
	workers int
	wanted  []Request     // the requests of locks are drawn from these
	longest time.Duration // longest time that a lock is held, without its transactions
	rest    time.Duration // longest pause between two locks
	hasty   bool          // no call waits: each tries once and then tries something else
	seed    uint64
	// a fenced transaction; nil without a fence
	write func(ctx context.Context, k *Held, number int) error
}

const (
	longestHold  = 12 * time.Millisecond // mostly
	writeTimeout = 10 * time.Second
)

// wanted are related resources, in every mode.
var wanted = []Request{
	exclusive("a"), shared("a"), exclusive("a/x"), shared("a/x"), exclusive("a/x/1"),
	exclusive("a/x/2"), shared("a/x/2"), exclusive("a/y"),
	exclusive("b"), shared("b"), exclusive("b/x"), exclusive("b/y"), exclusive("c"), shared("c"),
	exclusive("d"),
	slot("api", 3), slot("api", 3), slot("api", 3), slot("b/pool", 2), exclusive("api"),
}

// waitPolicy is the wait policy of Acquire. It is longer than a live process holds any lock.
var waitPolicy = retry.Policy{Attempts: 60, Delay: time.Millisecond,
	MaxDelay: 20 * time.Millisecond,
	Backoff:  retry.Exponential, Jitter: 0.5}

// run works until ctx ends, and until all locks are released.
func (w *workload) run(ctx context.Context) {
	var all sync.WaitGroup
	for n := range w.workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(w.seed, uint64(n)))
			for ctx.Err() == nil {
				w.once(ctx, r)
				if w.rest > 0 {
					pause(ctx, time.Duration(r.Int64N(int64(w.rest))))
				}
			}
		})
	}
	all.Wait()
}

func (w *workload) once(ctx context.Context, r *rand.Rand) {
	requests := w.draw(r)
	owner := locking.Owner{Replica: w.replica, Job: "workload"}
	var k *Held
	var err error
	if w.hasty || r.IntN(3) == 0 {
		k, err = w.locker.TryAcquire(ctx, owner, requests)
	} else {
		k, err = w.locker.Acquire(ctx, owner, requests, waitPolicy)
	}
	switch {
	case errors.Is(err, locking.ErrHeld):
		pause(ctx, time.Duration(r.Int64N(int64(5*time.Millisecond))))
		return
	case err != nil: // there is no session, or no store
		pause(ctx, 20*time.Millisecond)
		return
	}
	w.use(k, r)
	// The caller's context must not interrupt the release.
	_ = k.Release(context.WithoutCancel(ctx)) // the history has the outcome
	if w.write != nil && r.IntN(8) == 0 {
		w.commit(k)
	}
}

// draw returns one to three requests of different resources.
func (w *workload) draw(r *rand.Rand) []locking.Request {
	var drawn []locking.Request
	taken := map[locking.Resource]bool{}
	for range 1 + r.IntN(3) {
		if request := w.wanted[r.IntN(len(w.wanted))]; !taken[request.Resource] {
			taken[request.Resource] = true
			drawn = append(drawn, request.Request)
		}
	}
	return drawn
}

// use holds the lock for a while and writes.
func (w *workload) use(k *Held, r *rand.Rand) {
	for range r.IntN(4) {
		pause(k.Context(), time.Duration(r.Int64N(int64(w.longest/3))))
		if w.write != nil {
			w.commit(k)
		}
	}
}

func (w *workload) commit(k *Held) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	// the history has the outcome
	_ = k.Commit(func(number int) error { return w.write(ctx, k, number) })
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
