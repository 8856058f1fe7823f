package engine

import (
	"cmp"
	"encoding/json"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// pending is a firing that waits for a worker: a scheduled time of the timetable, or an adopted
// run.
type pending struct {
	storage.Firing
	entry     *entry
	adopted   uuid.UUID // the adopted run; zero for a firing of the timetable
	adoptedBy uuid.UUID // the session that adopted it
	attempt   int
	// a late run, or a run of a backfill: it waits for earlier runs of its job, whatever the job's
	// overlap policy
	late          bool
	backfill      uuid.UUID       // adopted run: the backfill that added it; zero for other runs
	since         time.Time       // when it began to wait on this replica
	queued        time.Time       // adopted run: when it began to wait on any replica
	blockerText   string          // adopted run: description of its blocker until then
	triggerParams json.RawMessage // adopted run: its trigger params
	looked        bool            // the prefilter has passed it
	triggerLimit  *time.Time      // adopted run: StartBy of its record
	done          func()          // called when this replica no longer tracks the run

	slots *slotSet // the slots that it needs besides a worker
	rank  int      // of this replica for the firing (see ranking), or unranked
	burst *burst   // nil if the firing was not added to one
}

// mayBeginEarly reports whether the firing may begin without a worker: its job is quick. An adopted
// run may not, because it may have begun early before and got no worker. A firing with a deadline
// may not, because the deadline applies until its handler is called.
func (p *pending) mayBeginEarly() bool { return p.adopted == uuid.Nil && p.entry.mayBeginEarly() }

func (e *entry) mayBeginEarly() bool { return e.Deadline == 0 && e.quickness.isQuick() }

// paced reports whether the firing counts as a late run: it is late, and its run has not begun.
func (p pending) paced() bool { return p.late && p.attempt <= 1 }

// overdue reports whether the misfire policy decides on the firing, because it has not started in
// time. Adopted runs are never overdue.
func (p *pending) overdue(now time.Time) bool {
	return p.adopted == uuid.Nil && p.entry.overdue(p.ScheduledAt, now)
}

// queued is an item of the queue. A firing of the timetable becomes a pending one when it leaves
// the queue: when 100,000 jobs are due together, most of them wait there.
type queued struct {
	position time.Time // see QueuePosition
	mixed    uint64    // differs by replica
	since    time.Time
	planned           // rank is always set
	pending  *pending // nil for a firing of the timetable
}

func (q *queued) before(other *queued) bool {
	return cmp.Or(q.position.Compare(other.position),
		q.scheduledAt.Compare(other.scheduledAt), cmp.Compare(q.rank, other.rank),
		cmp.Compare(q.mixed, other.mixed)) < 0
}

// firing returns the pending firing of the item.
func (q *queued) firing() *pending {
	if q.pending != nil {
		return q.pending
	}
	p := q.planned.pending(q.since)
	return &p
}

func (q *queued) mayBeginEarly() bool {
	if q.pending != nil {
		return q.pending.mayBeginEarly()
	}
	return q.entry.mayBeginEarly()
}

// ready is the queue of pending firings. It is sorted by their positions, then by the rank of this
// replica, and then in an order that differs by replica, so that replicas do not all try the same
// firing at the same time. It may be used concurrently.
type ready struct {
	seed    uint64 // of this replica
	mu      sync.Mutex
	queue   []*queued         // a heap
	adopted int               // how many in the queue are adopted
	late    *slots            // for late runs
	groups  map[string]*slots // by group, for groups with a limit per replica
	adopt   chan<- struct{}   // gets a value when runs that had no slot may be adopted
	wake    chan struct{}     // holds a value when a firing was queued
	idle    chan struct{}     // holds a value when the queue became empty
}

// newReady returns the queue of a replica. late limits the workers that run late runs.
func newReady(replica string, late int) *ready {
	return &ready{seed: hashText(replica), late: newSlots(late), groups: map[string]*slots{},
		wake: make(chan struct{}, 1), idle: make(chan struct{}, 1)}
}

// add adds a firing of the timetable.
func (r *ready) add(p planned, now time.Time) {
	q := &queued{planned: p, since: now, mixed: mix(r.seed ^ hashText(p.entry.Name)),
		position: storage.QueuePosition(p.scheduledAt, p.entry.EffectivePriority())}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enqueue(q)
}

// push adds an adopted run, or a firing that has left the queue.
func (r *ready) push(p pending) {
	since := p.queued
	if since.IsZero() {
		since = p.ScheduledAt
	}
	priority := p.entry.EffectivePriority()
	if p.runOfBackfill() {
		priority = storage.BackfillPriority
	}
	q := &queued{position: storage.QueuePosition(since, priority),
		mixed:   mix(r.seed ^ hashText(p.Job)),
		planned: planned{scheduledAt: p.ScheduledAt, rank: int16(p.rank)}, pending: &p}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.slots = r.slotsOf(p)
	p.countAdopted(1)
	r.enqueue(q)
}

// countAdopted adds n to the number of adopted runs that wait for the slots of this one. The caller
// has the lock of the queue.
func (p *pending) countAdopted(n int) {
	if p.adopted != uuid.Nil {
		for _, s := range p.slots.needs {
			s.adopted += n
		}
	}
}

func (r *ready) enqueue(q *queued) {
	pushHeap(&r.queue, q)
	if q.isAdopted() {
		r.adopted++
	}
	signal(r.wake)
}

func (q *queued) isAdopted() bool { return q.pending != nil && q.pending.adopted != uuid.Nil }

// remove removes the first item.
func (r *ready) remove() *queued {
	q := popHeap(&r.queue)
	if len(r.queue) == 0 {
		signal(r.idle)
	}
	if q.isAdopted() {
		r.adopted--
	}
	return q
}

// pop removes the first firing whose slots are free, and takes them, or reports that there is none.
// The caller releases the slots.
func (r *ready) pop() (pending, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 {
		q := r.remove()
		p := q.firing()
		if q.pending == nil {
			p.slots = r.slotsOf(*p)
			q.pending = p
		}
		if full := r.tryTake(p.slots); full != nil {
			r.park(q, full)
			continue
		}
		p.countAdopted(-1)
		return *p, true
	}
	return pending{}, false
}

// mayBeginEarly reports whether the first firing may begin early.
func (r *ready) mayBeginEarly() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) > 0 && r.queue[0].mayBeginEarly()
}

// takeAll removes all firings, including parked ones, without taking slots.
func (r *ready) takeAll() []pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []pending
	take := func(heap *[]*queued) {
		for _, q := range *heap {
			p := q.firing()
			p.countAdopted(-1)
			all = append(all, *p)
		}
		*heap = nil
	}
	take(&r.queue)
	take(&r.late.parked)
	for _, s := range r.groups {
		take(&s.parked)
	}
	r.adopted = 0
	return all
}

// adoptedLen returns how many queued firings are adopted.
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
