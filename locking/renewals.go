package locking

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/internal/sleep"
)

const (
	// renewalsAtOnce is how many locks are renewed at the same time. The renewals of a server that
	// hangs take a second each, and those of other servers must not wait for them.
	renewalsAtOnce = 256
	sweepEvery     = 5 * time.Second
)

// Run renews the locks of l and removes strays until ctx ends. Then it returns nil. Call it once.
// Keep ctx alive longer than the work that the locks protect. When Run has returned, a lock without
// Grants is lost as soon as it cannot be trusted any more.
//
// With Options.Grants, Run also keeps a session open. When ctx ends, Run ends the context
// of each lock, with a *LostError as its cause, and releases the locks.
func (l *Locker) Run(ctx context.Context) error {
	var keeping sync.WaitGroup
	if l.keeper != nil {
		keeping.Go(func() { l.holdSession(ctx) })
	}
	if l.options.Sessions != nil {
		keeping.Go(func() {
			l.owners.run(ctx, func(err error) {
				l.options.Log.Debug().Err(err).
					Msg("live sessions not read, advisory locks expire with their leases")
			})
		})
	}
	defer keeping.Wait()
	return l.keepAdvisory(ctx)
}

func (l *Locker) keepAdvisory(ctx context.Context) error {
	var workers errgroup.Group
	workers.SetLimit(renewalsAtOnce)
	swept := time.Now()
	for ctx.Err() == nil {
		for _, lock := range l.renewals.expiring(time.Now()) {
			workers.Go(func() error {
				lock.renew(ctx)
				return nil
			})
		}
		var sweepAt time.Time // zero while there are no strays
		if l.strays.any() {
			sweepAt = swept.Add(sweepEvery)
		}
		l.renewals.wait(ctx, sweepAt)
		if now := time.Now(); !sweepAt.IsZero() && !now.Before(sweepAt) && ctx.Err() == nil {
			swept = now
			workers.Go(func() error {
				l.sweepStrays(ctx)
				return nil
			})
		}
	}
	return workers.Wait()
}

// renewals is a queue of locks by the time of their next renewal.
type renewals struct {
	mu    sync.Mutex
	queue lockQueue
	// holds an item when the first of the queue has changed, or there are strays
	wake chan struct{}
}

func newRenewals() renewals { return renewals{wake: make(chan struct{}, 1)} }

// add puts the lock into the queue, or moves it there.
func (r *renewals) add(lock *Lock, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(lock)
	lock.renewAt = at
	heap.Push(&r.queue, lock)
	if lock.index == 0 {
		r.news()
	}
}

func (r *renewals) remove(lock *Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(lock)
}

func (r *renewals) take(lock *Lock) {
	if lock.index >= 0 {
		heap.Remove(&r.queue, lock.index)
	}
}

// expiring removes and returns the locks whose time of renewal has come.
func (r *renewals) expiring(now time.Time) []*Lock {
	r.mu.Lock()
	defer r.mu.Unlock()
	var locks []*Lock
	for len(r.queue) > 0 && !r.queue[0].renewAt.After(now) {
		lock := r.queue[0]
		r.take(lock)
		locks = append(locks, lock)
	}
	return locks
}

// wait returns at the next renewal, at until unless that is zero, after news, or
// when ctx ends.
func (r *renewals) wait(ctx context.Context, until time.Time) {
	r.mu.Lock()
	next := time.Hour
	if len(r.queue) > 0 {
		next = time.Until(r.queue[0].renewAt)
	}
	r.mu.Unlock()
	if !until.IsZero() {
		next = min(next, time.Until(until))
	}
	timer := sleep.Timer(next)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	case <-ctx.Done():
	}
}

// news makes wait return.
func (r *renewals) news() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// lockQueue is a heap of locks by renewAt. Each lock knows its index, which is -1
// outside the heap.
type lockQueue []*Lock

func (q lockQueue) Len() int           { return len(q) }
func (q lockQueue) Less(i, j int) bool { return q[i].renewAt.Before(q[j].renewAt) }

func (q lockQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *lockQueue) Push(x any) {
	lock := x.(*Lock)
	lock.index = len(*q)
	*q = append(*q, lock)
}

// Pop implements heap.Interface.
func (q *lockQueue) Pop() any {
	last := len(*q) - 1
	lock := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	lock.index = -1
	return lock
}
