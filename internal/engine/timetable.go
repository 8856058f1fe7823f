package engine

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// planned is a scheduled time of a job in the timetable. It is processed at the scheduled time,
// when the next one is planned, again when its delay ends, and again when this replica may try it.
type planned struct {
	scheduledAt time.Time
	after       time.Duration // how long after the scheduled time it is processed
	delayed     bool
	ranked      bool // rank is set
	// this replica's rank for the firing (see ranking), at most sharedRank, or unranked
	rank   int16
	entry  *entry  // nil if the item is of a cohort
	cohort *cohort // nil if the item is of one job
	burst  *burst  // nil if the firing was not added to one
}

// at returns when the item is processed.
func (p *planned) at() time.Time { return p.scheduledAt.Add(p.after) }

func (p planned) before(other planned) bool { return p.at().Before(other.at()) }

// timetable holds the next scheduled time of every job, and earlier ones whose delays have not
// ended. Items are mostly added in the order of their times: the next scheduled times of jobs with
// the same schedule, and the turns of this replica for firings that it has left to others. Such
// items are in sequences, and all others in a heap.
//
// Jobs with the same schedule that are planned one after the other form a cohort, which is one
// item.
type timetable struct {
	last      planned // not in a sequence or in the heap yet, so that jobs can join its cohort
	sequences [sequencesLen]sequence
	heap      []planned
}

// sequencesLen has room for the jobs of two schedules and for the turns of each rank.
const sequencesLen = 2 + sharedRank

// nextTime remembers the last answer of a schedule. Jobs with the same schedule ask it one after
// the other when they are due.
type nextTime struct {
	schedule    schedule.Schedule
	after, next time.Time
}

// of returns s.Next(after).
func (n *nextTime) of(s schedule.Schedule, after time.Time) time.Time {
	if s != n.schedule || !after.Equal(n.after) {
		*n = nextTime{s, after, s.Next(after)}
	}
	return n.next
}

// plan plans a scheduled time of the entry, unless it is the zero time.
func (t *timetable) plan(e *entry, scheduledAt time.Time) {
	switch last := &t.last; {
	case scheduledAt.IsZero():
	case last.cohort != nil && last.isOf(last.cohort.entries[0].Schedule, scheduledAt, e):
		last.cohort.entries = append(last.cohort.entries, e)
	case last.entry != nil && last.isOf(last.entry.Schedule, scheduledAt, e):
		last.cohort, last.entry = &cohort{entries: []*entry{last.entry, e}}, nil
	default:
		t.putLast()
		t.last = planned{scheduledAt: scheduledAt, entry: e}
	}
}

// isOf reports whether the entry has the schedule and the scheduled time of the item.
func (p *planned) isOf(s schedule.Schedule, scheduledAt time.Time, e *entry) bool {
	return scheduledAt.Equal(p.scheduledAt) && e.Schedule == s
}

// planCohort plans a scheduled time of all jobs of a cohort, unless it is the zero time.
func (t *timetable) planCohort(c *cohort, scheduledAt time.Time) {
	t.putLast()
	if !scheduledAt.IsZero() {
		t.last = planned{scheduledAt: scheduledAt, cohort: c}
	}
}

// putLast puts the last item that was planned to the others.
func (t *timetable) putLast() {
	if t.last.entry != nil || t.last.cohort != nil {
		t.put(t.last)
		t.last = planned{}
	}
}

// delay plans the start of a scheduled time that was popped, and reports whether it is after the
// scheduled time. It does so even if the start is over: a replica that is late ranks itself for the
// start, as the others do.
func (t *timetable) delay(p planned) bool {
	p.after, p.delayed = p.entry.startOf(p.scheduledAt).Sub(p.scheduledAt), true
	if p.after > 0 {
		t.put(p)
		return true
	}
	return false
}

// put adds an item to the sequence that it continues, or else begins a new one. If there is no room
// for another sequence, the last one to begin makes room, unless it begins soon after the item.
func (t *timetable) put(p planned) {
	at := p.at()
	var continued, empty, last *sequence
	for i := range t.sequences {
		switch s := &t.sequences[i]; {
		case s.isEmpty():
			empty = s
		case s.isContinuedBy(at):
			if continued == nil || continued.end.Before(s.end) {
				continued = s
			}
		case last == nil || last.head.Before(s.head):
			last = s
		}
	}
	switch {
	case continued != nil:
		continued.add(p, at)
	case empty != nil:
		empty.add(p, at)
	case last.head.Sub(at) > sequenceGap:
		for !last.isEmpty() {
			pushHeap(&t.heap, last.pop())
		}
		last.add(p, at)
	default:
		pushHeap(&t.heap, p)
	}
}

// pop removes and returns the earliest item. The timetable must not be empty.
func (t *timetable) pop() planned {
	t.putLast()
	if s := t.earliest(); s != nil {
		return s.pop()
	}
	return popHeap(&t.heap)
}

// popEarliest removes all items with the earliest time. It appends them to items, and returns the
// result.
func (t *timetable) popEarliest(items []planned) []planned {
	for at := t.next(); !at.IsZero() && t.next().Equal(at); {
		items = append(items, t.pop())
	}
	return items
}

// earliest returns the sequence with the earliest item, or nil if that item is in the heap or there
// is none.
func (t *timetable) earliest() *sequence {
	var found *sequence
	for i := range t.sequences {
		s := &t.sequences[i]
		if !s.isEmpty() && (found == nil || s.head.Before(found.head)) {
			found = s
		}
	}
	if found != nil && len(t.heap) > 0 && t.heap[0].at().Before(found.head) {
		return nil
	}
	return found
}

// firstTwo returns the earliest item and the time of the second one, or zero values if they do not
// exist.
func (t *timetable) firstTwo() (first planned, second time.Time) {
	t.putLast()
	add := func(at time.Time) {
		if second.IsZero() || at.Before(second) {
			second = at
		}
	}
	earliest, heap := t.earliest(), t.heap
	for i := range t.sequences {
		switch s := &t.sequences[i]; {
		case s == earliest:
			first = s.blocks[0][s.first]
			if next := s.second(); next != nil {
				add(next.at())
			}
		case !s.isEmpty():
			add(s.head)
		}
	}
	if earliest == nil && len(heap) > 0 {
		first, heap = heap[0], heap[1:min(len(heap), 3)] // the second one is a child of the first
	}
	for i := range heap[:min(len(heap), 2)] {
		add(heap[i].at())
	}
	return first, second
}

// next returns the time of the earliest item, or the zero time.
func (t *timetable) next() time.Time {
	t.putLast()
	if s := t.earliest(); s != nil {
		return s.head
	}
	if len(t.heap) > 0 {
		return t.heap[0].at()
	}
	return time.Time{}
}
