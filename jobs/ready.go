package jobs

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"hash/fnv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// pending is a firing that waits for a worker: a scheduled time of the timetable, or a
// waiting run that this replica has adopted.
type pending struct {
	entry   *entry
	firing  Firing
	adopted uuid.UUID // the run, where there is one in the store already
	session uuid.UUID // that adopted it
	attempt int
	// a misfire that is run late: it waits for earlier runs of its job, whatever the job's overlap
	late     bool
	since    time.Time       // when it began to wait here
	queued   time.Time       // of an adopted one: when it began to wait anywhere
	obstacle string          // of an adopted one: what was in its way until then, in words
	moment   json.RawMessage // of an adopted one: its params of the moment
	looked   bool            // the sieve has let it through
	startBy  *time.Time      // of an adopted one: as its record has it
	done     func()          // of an adopted one: called when this replica cares for it no more

	hold  *hold     // what it takes beside a worker
	place time.Time // as QueuePosition has it
	rank  uint64
}

// paced reports whether the firing is part of catching up: it is late, and its
// run has not begun.
func (p pending) paced() bool { return p.late && p.attempt <= 1 }

// ready is the queue of pending firings, by their places and then in an order
// of the replica's own: were it the same on every replica, all of them would
// ask for the same firing at the same time. It may be used concurrently.
type ready struct {
	replica    string
	mu         sync.Mutex
	queue      readyHeap
	adopted    int                // how many of the queue were adopted
	late       *places            // for late runs
	lateQueued int                // how many of those are queued or parked
	groups     map[string]*places // for those that have a limit here
	wake       chan struct{}      // holds a value when something was queued
}

// newReady returns a queue for a replica of which that many workers may be at
// work on late runs.
func newReady(replica string, late int) *ready {
	return &ready{replica: replica, late: newPlaces(late), groups: map[string]*places{},
		wake: make(chan struct{}, 1)}
}

// push adds a firing. Rank is the rendezvous hash of job and replica, so that
// of two replicas each begins where the other ends.
func (r *ready) push(p pending) {
	h := fnv.New64a()
	h.Write([]byte(r.replica + "\x00" + p.firing.Job))
	p.rank = h.Sum64()
	since := p.queued
	if since.IsZero() {
		since = p.firing.ScheduledAt
	}
	p.place = QueuePosition(since, p.entry.priority())
	r.mu.Lock()
	defer r.mu.Unlock()
	p.hold = r.holdOf(p)
	if p.paced() {
		r.lateQueued++
	}
	r.enqueue(p)
}

func (r *ready) enqueue(p pending) {
	heap.Push(&r.queue, p)
	if p.adopted != uuid.Nil {
		r.adopted++
	}
	signal(r.wake)
}

// pop removes the first firing that has its places here, which are taken, or
// reports that there is none. The caller gives them back.
func (r *ready) pop() (pending, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 {
		p := heap.Pop(&r.queue).(pending)
		if p.adopted != uuid.Nil {
			r.adopted--
		}
		if full := r.tryTake(p.hold); full != nil {
			r.park(p, full)
			continue
		}
		if p.paced() {
			r.lateQueued--
		}
		return p, true
	}
	return pending{}, false
}

// takeAll removes all firings, also those that are parked, without taking places
// for them.
func (r *ready) takeAll() []pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append([]pending(nil), r.queue...)
	r.queue, r.adopted, r.lateQueued = nil, 0, 0
	all, r.late.parked = append(all, r.late.parked...), nil
	for _, s := range r.groups {
		all, s.parked = append(all, s.parked...), nil
	}
	return all
}

// adoptedLen returns how many of the queued firings were adopted.
func (r *ready) adoptedLen() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.adopted
}

func (r *ready) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue)
}

// lens returns how many firings wait for a worker, and how many are parked.
func (r *ready) lens() (queued, parked int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	parked = len(r.late.parked)
	for _, s := range r.groups {
		parked += len(s.parked)
	}
	return len(r.queue), parked
}

type readyHeap []pending

func (h readyHeap) Len() int { return len(h) }
func (h readyHeap) Less(i, j int) bool {
	return cmp.Or(h[i].place.Compare(h[j].place),
		h[i].firing.ScheduledAt.Compare(h[j].firing.ScheduledAt),
		cmp.Compare(h[i].rank, h[j].rank)) < 0
}
func (h readyHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *readyHeap) Push(x any)   { *h = append(*h, x.(pending)) }
func (h *readyHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = pending{}
	*h = (*h)[:last]
	return x
}
