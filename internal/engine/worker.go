package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// earlyMost is how many firings that have begun early share a reserved worker.
	earlyMost = 10
	// workerPatience is how long a run that has started without a worker waits for one.
	workerPatience = time.Second
)

// workers limits how many handlers run at once. Firings get free workers in the order in which they
// wait. Most firings take a worker before they begin. Firings of quick jobs begin early: they take
// a worker when their handler is to be called. So more of them share their requests to memcached
// and their transactions. One worker is reserved for every ten of them, so that they wait only for
// each other, and not for slow handlers. It may be used concurrently.
type workers struct {
	all   int
	busy  atomic.Int64 // taken or reserved
	limit *semaphore.Weighted

	mu       sync.Mutex
	early    int                 // firings that have begun early and have no worker yet
	reserved int                 // at least one for every earlyMost of them
	idle     *semaphore.Weighted // the reserved workers that execute no handler
}

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

func (w *workers) release() {
	w.busy.Add(-1)
	w.limit.Release(1)
}

// tryEarly lets a firing begin without a worker, and reports whether it may. It reserves a worker
// for it and others, if one is free.
func (w *workers) tryEarly() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.early == earlyMost*w.reserved {
		if !w.tryAcquire() {
			return false
		}
		w.reserved++
		w.idle.Release(1)
	}
	w.early++
	return true
}

// endEarly says that a firing that has begun early has a worker, or needs none.
func (w *workers) endEarly() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.early--
	if w.tooMany() && w.idle.TryAcquire(1) {
		w.reserved--
		w.release()
	}
}

// releaseReserved gives a reserved worker back.
func (w *workers) releaseReserved() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tooMany() {
		w.reserved--
		w.release()
		return
	}
	w.idle.Release(1)
}

// tooMany reports whether more workers are reserved than the early firings need. The caller has
// locked mu.
func (w *workers) tooMany() bool { return earlyMost*(w.reserved-1) >= w.early }

// free returns how many workers are free.
func (w *workers) free() int { return w.all - int(w.busy.Load()) }

// worker is the worker of one firing, with the slots that the firing needs besides. It belongs to
// one goroutine.
type worker struct {
	pool     *workers
	hold     *hold
	has      bool
	early    bool // the firing has begun early, and has no worker yet
	reserved bool // its worker is a reserved one
}

// begin takes a worker, or none if the firing may begin early.
func (w *worker) begin(ctx context.Context, mayBeginEarly bool) error {
	if w.early = mayBeginEarly && w.pool.tryEarly(); w.early {
		return nil
	}
	err := w.pool.acquire(ctx)
	w.has = err == nil
	return err
}

// mayStart reports whether the firing may ask for its start: it has a worker or has begun early.
func (w *worker) mayStart() bool { return w.has || w.early }

// ensure takes a worker for the handler of a firing that has begun early. It waits for at most
// workerPatience.
func (w *worker) ensure(ctx context.Context) error {
	defer w.endEarly()
	if w.has = w.pool.tryAcquire(); w.has {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, workerPatience)
	defer cancel()
	err := w.pool.idle.Acquire(ctx, 1)
	w.has, w.reserved = err == nil, err == nil
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
	if !w.hold.tryTake() {
		return false
	}
	if w.has = w.pool.tryAcquire(); !w.has {
		w.hold.giveBack()
	}
	return w.has
}

// take waits for the slots and then for a worker. In this order the firing does not occupy a worker
// while it waits for a slot.
func (w *worker) take(ctx context.Context) error {
	if err := w.hold.take(ctx); err != nil {
		return err
	}
	if err := w.pool.acquire(ctx); err != nil {
		w.hold.giveBack()
		return err
	}
	w.has = true
	return nil
}

// giveBack returns the worker and the slots, if the firing has them.
func (w *worker) giveBack() {
	w.hold.giveBack()
	w.free()
}

// free returns the worker, if the firing has it. The firing keeps its slots.
func (w *worker) free() {
	w.endEarly()
	switch {
	case w.reserved:
		w.pool.releaseReserved()
	case w.has:
		w.pool.release()
	}
	w.has, w.reserved = false, false
}
