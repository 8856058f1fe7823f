package jobs

import (
	"container/heap"
	"encoding/json"
	"hash/fnv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// pending is a firing that waits for a worker: a due of the timetable, or a
// waiting run that this replica has adopted.
type pending struct {
	entry   *entry
	firing  Firing
	adopted uuid.UUID // the run, where there is one in the store already
	session uuid.UUID // that adopted it
	attempt int
	late    bool      // a misfire that is run late: it waits for earlier runs of its job, whatever the job's overlap
	since   time.Time // when it began to wait
	rank    uint64
	moment  json.RawMessage // of an adopted one: its params of the moment
	looked  bool            // the sieve has let it through
	done    func()          // of an adopted one: called when this replica cares for it no more
}

// ready is the queue of pending firings, by due and then in an order of the
// replica's own: were it the same on every replica, all of them would ask for
// the same firing at the same time. It may be used concurrently.
type ready struct {
	replica string
	mu      sync.Mutex
	queue   readyHeap
	adopted int           // how many of the queue were adopted
	wake    chan struct{} // holds a value when something was pushed
}

func newReady(replica string) *ready {
	return &ready{replica: replica, wake: make(chan struct{}, 1)}
}

// push adds a firing. Rank is the rendezvous hash of job and replica, so that
// of two replicas each begins where the other ends.
func (r *ready) push(p pending) {
	h := fnv.New64a()
	h.Write([]byte(r.replica + "\x00" + p.firing.Job))
	p.rank = h.Sum64()
	r.mu.Lock()
	heap.Push(&r.queue, p)
	if p.adopted != uuid.Nil {
		r.adopted++
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// pop removes the first firing, or reports that there is none.
func (r *ready) pop() (pending, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return pending{}, false
	}
	p := heap.Pop(&r.queue).(pending)
	if p.adopted != uuid.Nil {
		r.adopted--
	}
	return p, true
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

type readyHeap []pending

func (h readyHeap) Len() int { return len(h) }
func (h readyHeap) Less(i, j int) bool {
	if c := h[i].firing.Due.Compare(h[j].firing.Due); c != 0 {
		return c < 0
	}
	return h[i].rank < h[j].rank
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
