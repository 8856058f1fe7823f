package engine

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// workers limits how many firings run at once. Firings get free workers in the order in which they
// wait. It may be used concurrently.
type workers struct {
	all   int
	busy  atomic.Int64
	limit *semaphore.Weighted
}

func newWorkers(n int) *workers { return &workers{all: n, limit: semaphore.NewWeighted(int64(n))} }

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

// free returns how many workers are free.
func (w *workers) free() int { return w.all - int(w.busy.Load()) }

// worker is the worker of one firing, with the slots that the firing needs besides. It belongs to
// one goroutine.
type worker struct {
	pool *workers
	hold *hold
	has  bool
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
	if w.has {
		w.has = false
		w.pool.release()
	}
}
