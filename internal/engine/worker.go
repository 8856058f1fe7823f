package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// earlyMost is how many firings that have begun early share a reserved worker.
	earlyMost = 10
	// slowCall is how long a handler may use a reserved worker before it counts as slow. By then,
	// all firings that share the worker should have used it.
	slowCall = earlyMost * quickRun
	// workerTimeout is how long a run that has started without a worker waits for one.
	workerTimeout = time.Second
)

// workers limits how many handlers run at once. Firings get free workers in the order in which they
// wait. Most firings take a worker before they begin. Firings of quick jobs begin early: they take
// a worker when their handler is to be called. So more of them share their requests to memcached
// and their transactions. One worker is reserved for every ten of them, so that they wait only for
// each other, and not for slow handlers. A handler that turns out to be slow keeps its worker, and
// another one is reserved instead. It may be used concurrently.
type workers struct {
	all   int
	busy  atomic.Int64 // taken or reserved
	limit *semaphore.Weighted

	mu       sync.Mutex
	early    int                 // firings that have begun early and have no worker yet
	reserved int                 // reserved workers, idle or lent
	idle     *semaphore.Weighted // reserved workers without a handler
	lent     []*loan             // the others, the oldest loan first
}

// loan is the use of a reserved worker by one handler.
type loan struct{ since time.Time }

func newWorkers(n int) *workers {
	w := &workers{all: n, limit: semaphore.NewWeighted(int64(n)),
		idle: semaphore.NewWeighted(int64(n))}
	w.idle.TryAcquire(int64(n)) // none is reserved yet
	return w
}

// acquire waits for a worker, or for ctx.
func (w *workers) acquire(ctx context.Context) error {
	err := w.limit.Acquire(ctx, 1)
	if err == nil {
		w.busy.Add(1)
	}
	return err
}

// tryAcquire takes a worker if one is free and no firing waits for it.
func (w *workers) tryAcquire() bool {
	free := w.limit.TryAcquire(1)
	if free {
		w.busy.Add(1)
	}
	return free
}

// release gives a worker back that is not reserved.
func (w *workers) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.give()
}

// give frees a worker, or reserves it for the early firings if they need one. The caller has locked
// mu.
func (w *workers) give() {
	w.leaveSlow()
	if w.early > earlyMost*w.reserved {
		w.reserved++
		w.idle.Release(1)
		return
	}
	w.busy.Add(-1)
	w.limit.Release(1)
}

// tryEarly lets a firing begin without a worker, and reports whether it may. It reserves a worker
// for it and others, if one is free.
func (w *workers) tryEarly() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveSlow()
	if !w.reserveFor(w.early + 1) {
		return false
	}
	w.early++
	return true
}

// reserveFor reserves free workers until there are enough for so many early firings, and reports
// whether there are. The caller has locked mu.
func (w *workers) reserveFor(early int) bool {
	for early > earlyMost*w.reserved {
		if !w.tryAcquire() {
			return false
		}
		w.reserved++
		w.idle.Release(1)
	}
	return true
}

// replaceSlowUntil calls replaceSlow after each slowCall until ctx ends. It returns the first
// timer.
func (w *workers) replaceSlowUntil(ctx context.Context) *time.Timer {
	return time.AfterFunc(slowCall, func() {
		if ctx.Err() == nil {
			w.replaceSlow()
			w.replaceSlowUntil(ctx)
		}
	})
}

// replaceSlow reserves free workers in place of those whose handlers are slow.
func (w *workers) replaceSlow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveSlow()
	w.reserveFor(w.early)
}

// leaveSlow removes workers with slow handlers from the reserved ones. The handlers keep them until
// they return. The caller has locked mu.
func (w *workers) leaveSlow() {
	now := time.Now()
	for len(w.lent) > 0 && now.Sub(w.lent[0].since) > slowCall {
		w.lent = slices.Delete(w.lent, 0, 1)
		w.reserved--
	}
}

// endEarly is called when a firing that has begun early has a worker, or no longer needs one. It
// frees a reserved worker if fewer are enough now.
func (w *workers) endEarly() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.early--
	if earlyMost*(w.reserved-1) >= w.early && w.idle.TryAcquire(1) {
		w.reserved--
		w.give()
	}
}

// borrow waits for a reserved worker, or for ctx, which the caller ends afterwards. When handlers
// turn out to be slow meanwhile, it replaces their workers.
func (w *workers) borrow(ctx context.Context) (*loan, error) {
	defer w.replaceSlowUntil(ctx).Stop()
	if err := w.idle.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &loan{time.Now()}
	w.lent = append(w.lent, l)
	return l, nil
}

// giveBack ends the loan.
func (w *workers) giveBack(l *loan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.lent, l); i >= 0 { // otherwise it was slow
		w.lent = slices.Delete(w.lent, i, i+1)
		w.reserved--
	}
	w.give()
}

// free returns how many workers are free.
func (w *workers) free() int { return w.all - int(w.busy.Load()) }

// worker is the worker of one firing, with the slots that the firing needs besides. It belongs to
// one goroutine.
type worker struct {
	pool  *workers
	slots *slotSet
	has   bool
	early bool  // the firing has begun early, and has no worker yet
	loan  *loan // if its worker was reserved
}

// begin takes a worker, or none if the firing may begin early.
func (w *worker) begin(ctx context.Context, mayBeginEarly bool) error {
	if mayBeginEarly && w.tryEarly() {
		return nil
	}
	err := w.pool.acquire(ctx)
	w.has = err == nil
	return err
}

// tryEarly reports whether a firing may begin early without waiting for a worker.
func (w *worker) tryEarly() bool {
	w.early = w.pool.tryEarly()
	return w.early
}

// mayStart reports whether the firing may ask for its start: it has a worker or has begun early.
func (w *worker) mayStart() bool { return w.has || w.early }

// ensure takes a worker for the handler of a firing that has begun early. It waits for at most
// workerTimeout.
func (w *worker) ensure(ctx context.Context) error {
	defer w.endEarly()
	if w.has = w.pool.tryAcquire(); w.has {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, workerTimeout)
	defer cancel()
	var err error
	w.loan, err = w.pool.borrow(ctx)
	w.has = err == nil
	return err
}

func (w *worker) endEarly() {
	if w.early {
		w.early = false
		w.pool.endEarly()
	}
}

// tryTake takes a worker and the slots, if all of them are free.
func (w *worker) tryTake() bool {
	if !w.slots.tryTake() {
		return false
	}
	if w.has = w.pool.tryAcquire(); !w.has {
		w.slots.giveBack()
	}
	return w.has
}

// take waits for the slots and then for a worker. In this order the firing does not occupy a worker
// while it waits for a slot.
func (w *worker) take(ctx context.Context) error {
	if err := w.slots.take(ctx); err != nil {
		return err
	}
	if err := w.pool.acquire(ctx); err != nil {
		w.slots.giveBack()
		return err
	}
	w.has = true
	return nil
}

// giveBack returns the worker and the slots, if the firing has them.
func (w *worker) giveBack() {
	w.slots.giveBack()
	w.free()
}

// endCall returns the worker, and with it the slot for late runs, which limits workers. The firing
// keeps the slot of its group.
func (w *worker) endCall() {
	w.slots.giveBackLate()
	w.free()
}

// free returns the worker, if the firing has it. The firing keeps its slots.
func (w *worker) free() {
	w.endEarly()
	switch {
	case w.loan != nil:
		w.pool.giveBack(w.loan)
	case w.has:
		w.pool.release()
	}
	w.has, w.loan = false, nil
}
