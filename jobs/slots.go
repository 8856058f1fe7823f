package jobs

import (
	"container/heap"
	"context"

	"golang.org/x/sync/semaphore"
)

// places bounds how many firings of a kind are at work on this replica at
// once: those of a group, or late runs. Whoever finds none free is parked, so
// that others pass; ready's lock guards all but the waiting for one.
type places struct {
	all    int
	taken  int
	limit  *semaphore.Weighted
	parked readyHeap
}

func newPlaces(n int) *places { return &places{all: n, limit: semaphore.NewWeighted(int64(n))} }

func (s *places) free() int { return s.all - s.taken }

// tryTake takes a place if one is free and nobody waits for it.
func (s *places) tryTake() bool {
	if !s.limit.TryAcquire(1) {
		return false
	}
	s.taken++
	return true
}

func (s *places) giveBack() {
	s.taken--
	s.limit.Release(1)
}

// hold is the places that one firing takes while it is at work. It belongs to
// one goroutine at a time.
type hold struct {
	ready *ready
	needs []*places // in the order in which everybody takes them
	has   bool
}

// tryTake takes all places or none.
func (h *hold) tryTake() bool {
	h.ready.mu.Lock()
	defer h.ready.mu.Unlock()
	return h.ready.tryTake(h) == nil
}

// take waits for all places. Who waits for one may have others: they are taken
// in one order, and whoever has all of them waits for none.
func (h *hold) take(ctx context.Context) error {
	for i, s := range h.needs {
		if err := s.limit.Acquire(ctx, 1); err != nil {
			h.ready.give(h.needs[:i])
			return err
		}
		h.ready.mu.Lock()
		s.taken++
		h.ready.mu.Unlock()
	}
	h.has = true
	return nil
}

// giveBack gives the places to others, if the firing has them.
func (h *hold) giveBack() {
	if h.has {
		h.has = false
		h.ready.give(h.needs)
	}
}

// tryTake takes all places that h needs, or returns one that is not free.
func (r *ready) tryTake(h *hold) (full *places) {
	for i, s := range h.needs {
		if !s.tryTake() {
			r.giveLocked(h.needs[:i])
			return s
		}
	}
	h.has = true
	return nil
}

func (r *ready) give(taken []*places) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveLocked(taken)
}

func (r *ready) giveLocked(taken []*places) {
	for _, s := range taken {
		s.giveBack()
		r.unpark(s)
	}
}

// park puts a firing aside until the place is free. What it may have been
// called for is passed on.
func (r *ready) park(p pending, full *places) {
	heap.Push(&full.parked, p)
	for _, s := range p.hold.needs {
		if s != full {
			r.unpark(s)
		}
	}
}

// unpark lets the first that was parked try again, if there is a place for it.
func (r *ready) unpark(s *places) {
	if len(s.parked) > 0 && s.free() > 0 {
		r.enqueue(heap.Pop(&s.parked).(pending))
	}
}

// holdOf returns what bounds a firing here: late runs, and its group.
func (r *ready) holdOf(p pending) *hold {
	h := &hold{ready: r}
	if p.paced() {
		h.needs = append(h.needs, r.late)
	}
	if s := r.group(p.entry); s != nil {
		h.needs = append(h.needs, s)
	}
	return h
}

// group returns the places of the job's group, or nil where it has no limit
// here. Jobs that give one group several limits share the first that is asked
// for.
func (r *ready) group(e *entry) *places {
	if e.GroupLimits.PerReplica == 0 {
		return nil
	}
	s := r.groups[e.Group]
	if s == nil {
		s = newPlaces(e.GroupLimits.PerReplica)
		r.groups[e.Group] = s
	}
	return s
}

// full reports whether the job's group has no free place here.
func (r *ready) full(e *entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.group(e)
	return s != nil && s.free() == 0
}

// lateRoom returns how many more late runs there is a place for, beside those
// that are queued.
func (r *ready) lateRoom() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, r.late.free()-r.lateQueued)
}
