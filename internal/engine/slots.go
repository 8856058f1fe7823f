package engine

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"
)

// slots limits how many firings of a kind run on this replica at once: those of a group, or late
// runs. A firing without a free slot is parked, so that others can pass it. The lock of ready
// guards all fields except the semaphore.
type slots struct {
	all     int
	taken   int
	adopted int  // how many adopted runs that need a slot are queued or parked
	left    bool // the last adoption had no room for all runs, so some may wait in the store
	limit   *semaphore.Weighted
	parked  []*queued // a heap
}

func newSlots(n int) *slots { return &slots{all: n, limit: semaphore.NewWeighted(int64(n))} }

func (s *slots) free() int { return s.all - s.taken }

// room returns how many more runs can be adopted that will get a slot at once.
func (s *slots) room() int { return max(0, s.free()-s.adopted) }

// tryTake takes a slot if one is free and no firing waits for it.
func (s *slots) tryTake() bool {
	if !s.limit.TryAcquire(1) {
		return false
	}
	s.taken++
	return true
}

func (s *slots) giveBack() {
	s.taken--
	s.limit.Release(1)
}

// slotSet has the slots that one firing needs. It belongs to one goroutine at a time.
type slotSet struct {
	ready *ready
	needs []*slots // in the order in which every firing takes them: late runs, group
	has   []*slots // those of needs that the firing has
	line  bool     // a late run, not of a backfill: after its start, the next one can be adopted
}

// tryTake takes all slots or none.
func (set *slotSet) tryTake() bool { return set.ready.tryTakeAll(set) }

// take waits for all slots. Deadlocks cannot occur: every firing takes slots in the same order, and
// a firing that has all of them waits for none.
func (set *slotSet) take(ctx context.Context) error {
	for i, s := range set.needs {
		if err := s.limit.Acquire(ctx, 1); err != nil {
			set.ready.give(set.needs[:i])
			set.ready.gaveUp(s)
			return err
		}
		set.ready.took(s)
	}
	set.has = set.needs
	return nil
}

// giveBack releases the slots that the firing has.
func (set *slotSet) giveBack() {
	if len(set.has) > 0 {
		set.ready.give(set.has)
		set.has = nil
	}
}

// giveBackLate releases the slot for late runs, if the firing has it, when its handler has returned
// or will not be called. Further attempts of the run need no such slot. Late runs that an adoption
// has left in the store can then be adopted.
func (set *slotSet) giveBackLate() {
	if len(set.needs) == 0 || set.needs[0] != set.ready.late {
		return
	}
	set.needs = set.needs[1:]
	if len(set.has) > len(set.needs) {
		set.ready.give(set.has[:1])
		set.has = set.has[1:]
	}
	set.ready.wakeForLate(false)
}

// leave is called when the firing has ended, or is left to other replicas.
func (set *slotSet) leave() {
	set.giveBackLate()
	set.started()
}

// started is called when the run of the firing has started. The next late run of its job can then
// be adopted. It should be adopted here, because this replica notices the end of the run at once.
func (set *slotSet) started() {
	if set.line {
		set.line = false
		set.ready.wakeForLate(true)
	}
}

// tryTakeAll takes all slots that set needs, or none.
func (r *ready) tryTakeAll(set *slotSet) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tryTake(set) == nil
}

// gaveUp notes that a firing has given up its wait for a slot. It may have had the slot for a
// moment in which another firing was parked.
func (r *ready) gaveUp(s *slots) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unpark(s)
}

// took notes that a firing has acquired one of the slots.
func (r *ready) took(s *slots) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.taken++
}

// tryTake takes all slots that set needs, or returns one that is full.
func (r *ready) tryTake(set *slotSet) (full *slots) {
	for i, s := range set.needs {
		if !s.tryTake() {
			r.giveLocked(set.needs[:i])
			return s
		}
	}
	set.has = set.needs
	return nil
}

func (r *ready) give(taken []*slots) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveLocked(taken)
}

func (r *ready) giveLocked(taken []*slots) {
	for _, s := range taken {
		s.giveBack()
		r.unpark(s)
		// A late run gives its slot back to wait, for example for another run of its job. If this
		// woke the adoption, the next run of the job would be adopted to wait too, and so on.
		if s != r.late && s.left && s.room() > 0 {
			signal(r.adopt)
		}
	}
}

// park parks a firing until the slot is free. The firing may have been woken for other slots, so it
// wakes the next firing for each of them.
func (r *ready) park(q *queued, full *slots) {
	pushHeap(&full.parked, q)
	for _, s := range q.pending.slots.needs {
		if s != full {
			r.unpark(s)
		}
	}
}

// dropParked removes the firings that are parked for their groups and cannot start any more: their
// jobs were removed or replaced, or they are overdue. It returns the overdue ones. Parked late runs
// are adopted, so they stay.
func (r *ready) dropParked(now time.Time) (overdue []*pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.groups {
		all := s.parked
		s.parked = all[:0] // it grows only over elements that the loop has read
		for _, q := range all {
			switch p := q.pending; {
			case p.adopted == uuid.Nil && p.entry.gone.Load():
			case p.overdue(now):
				overdue = append(overdue, p)
			default:
				pushHeap(&s.parked, q)
			}
		}
		clear(all[len(s.parked):])
	}
	return overdue
}

// unpark returns the first parked firing to the queue, if there is a slot for it.
func (r *ready) unpark(s *slots) {
	if len(s.parked) > 0 && s.free() > 0 {
		r.enqueue(popHeap(&s.parked))
	}
}

// slotsOf returns the limits of a firing on this replica: of late runs, and of its group.
func (r *ready) slotsOf(p pending) *slotSet {
	set := &slotSet{ready: r}
	if p.paced() {
		set.needs, set.line = append(set.needs, r.late), p.backfill == uuid.Nil
	}
	if s := r.group(p.entry); s != nil {
		set.needs = append(set.needs, s)
	}
	return set
}

// group returns the slots of the job's group, or nil if it has no limit per replica. If jobs
// disagree about the limit of a group, the first one counts.
func (r *ready) group(e *entry) *slots {
	if e.GroupLimits.PerReplica == 0 {
		return nil
	}
	s := r.groups[e.Group]
	if s == nil {
		s = newSlots(e.GroupLimits.PerReplica)
		r.groups[e.Group] = s
	}
	return s
}

// groupRoom returns how many more runs of the job's group can be adopted on this replica that will
// get a slot at once; false if the group has no limit per replica.
func (r *ready) groupRoom(e *entry) (room int, limited bool) {
	if e.GroupLimits.PerReplica == 0 {
		return 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.group(e).room(), true
}

// hasRoom reports whether n more runs of the job will get slots of its group at once, and no older
// run of the group may wait for them in the store.
func (r *ready) hasRoom(e *entry, n int) bool {
	if e.GroupLimits.PerReplica == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.group(e)
	return !s.left && n <= s.room()
}

// noteLeft notes for the groups of the jobs whether an adoption may have left runs in the store,
// because it had no room for them.
func (r *ready) noteLeft(adoptable []*entry, left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range adoptable {
		if s := r.group(e); s != nil {
			s.left = left
		}
	}
}

// noteLateLeft notes whether an adoption may have left late runs in the store, because it had no
// room for them. The next late run that ends then wakes the adoption. A slot may have become free
// during the adoption.
func (r *ready) noteLateLeft(left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late.left = left
	r.wakeLocked()
}

// wakeForLate wakes the adoption if late runs may wait in the store and there is room for them.
// left says that some may wait from now on. Without room, the end of a late run wakes the adoption.
func (r *ready) wakeForLate(left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late.left = r.late.left || left
	r.wakeLocked()
}

// wakeLocked is wakeForLate for a caller that has locked mu.
func (r *ready) wakeLocked() {
	if r.late.left && r.late.room() > 0 {
		signal(r.adopt)
	}
}

// lateRoom returns how many late runs can be added to those that run or are queued.
func (r *ready) lateRoom() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.late.room()
}
