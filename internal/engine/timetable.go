package engine

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// planned is a scheduled time of a job in the timetable. It is processed at the scheduled time,
// when the next one is planned, again when its delay ends, and again when this replica may try it.
type planned struct {
	at          time.Time
	scheduledAt time.Time
	delayed     bool
	ranked      bool // rank is set
	// this replica's rank for the firing (see ranking), at most sharedRank, or unranked
	rank  int16
	entry *entry
}

func (p planned) before(other planned) bool { return p.at.Before(other.at) }

// timetable holds the next scheduled time of every job, and earlier ones whose delays have not
// ended. Items are mostly added in the order of their times: the next scheduled times of jobs with
// the same schedule, and the turns of this replica for firings that it has left to others. Such
// items are in sequences, and all others in a heap.
type timetable struct {
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
	if !scheduledAt.IsZero() {
		t.put(planned{at: scheduledAt, scheduledAt: scheduledAt, entry: e})
	}
}

// delay plans the start of a scheduled time that was popped, and reports whether it is after the
// scheduled time. It does so even if the start is over: a replica that is late ranks itself for the
// start, as the others do.
func (t *timetable) delay(p planned) bool {
	p.at, p.delayed = p.entry.startOf(p.scheduledAt), true
	if p.at.After(p.scheduledAt) {
		t.put(p)
		return true
	}
	return false
}

// put adds an item to the sequence that it continues, or else begins a new one. If there is no room
// for another sequence, the last one to begin makes room, unless it begins soon after the item.
func (t *timetable) put(p planned) {
	var continued, empty, last *sequence
	for i := range t.sequences {
		switch s := &t.sequences[i]; {
		case s.isEmpty():
			empty = s
		case s.isContinuedBy(p):
			if continued == nil || continued.end().Before(s.end()) {
				continued = s
			}
		case last == nil || last.head().Before(s.head()):
			last = s
		}
	}
	switch {
	case continued != nil:
		continued.add(p)
	case empty != nil:
		empty.add(p)
	case last.head().Sub(p.at) > sequenceGap:
		for !last.isEmpty() {
			pushHeap(&t.heap, last.pop())
		}
		last.add(p)
	default:
		pushHeap(&t.heap, p)
	}
}

// pop removes and returns the earliest item. The timetable must not be empty.
func (t *timetable) pop() planned {
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
		if !s.isEmpty() && (found == nil || s.head().Before(found.head())) {
			found = s
		}
	}
	if found != nil && len(t.heap) > 0 && t.heap[0].at.Before(found.head()) {
		return nil
	}
	return found
}

// next returns the time of the earliest item, or the zero time.
func (t *timetable) next() time.Time {
	if s := t.earliest(); s != nil {
		return s.head()
	}
	if len(t.heap) > 0 {
		return t.heap[0].at
	}
	return time.Time{}
}
