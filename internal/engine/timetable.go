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
// ended. Most of what is due soon is planned in the order of time: the next scheduled time of one
// job after that of the other, and the turns of this replica for the firings of others. Each such
// sequence has a lane, so that it needs no heap.
type timetable struct {
	lanes  [timetableLanes]lane
	heap   []planned // all others
	popped time.Time // when the last item was planned for
}

const (
	// timetableLanes is one more than the ranks of a replica that looks at firings one by one.
	timetableLanes = sharedRank + 1
	// laneSpan is how long after the last item an item of a lane may be. A lane with an item of the
	// next day would be of no use until then.
	laneSpan = 5 * time.Second
)

// lane is a queue of items in the order of their times.
type lane struct {
	items []planned
	first int // the index of the first item
}

func (l *lane) isEmpty() bool   { return l.first == len(l.items) }
func (l *lane) head() time.Time { return l.items[l.first].at }
func (l *lane) end() time.Time  { return l.items[len(l.items)-1].at }

// add adds an item that is not before the last one.
func (l *lane) add(p planned) {
	if l.first > len(l.items)/2 && len(l.items) == cap(l.items) {
		n := copy(l.items, l.items[l.first:])
		clear(l.items[n:])
		l.items, l.first = l.items[:n], 0
	}
	l.items = append(l.items, p)
}

// pop removes and returns the first item.
func (l *lane) pop() planned {
	p := l.items[l.first]
	l.items[l.first] = planned{}
	if l.first++; l.isEmpty() {
		l.items, l.first = l.items[:0], 0
	}
	return p
}

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

// delay plans the start of a scheduled time that was popped, and reports whether it is after now.
func (t *timetable) delay(p planned, now time.Time) bool {
	p.at, p.delayed = p.entry.startOf(p.scheduledAt), true
	if p.at.After(now) {
		t.put(p)
		return true
	}
	return false
}

// put adds an item. Of the lanes to which it can be added, it takes the one that ends last.
func (t *timetable) put(p planned) {
	var best *lane
	for i := range t.lanes {
		l := &t.lanes[i]
		switch {
		case l.isEmpty():
			if best == nil {
				best = l
			}
		case p.at.Before(l.end()):
		case best == nil, best.isEmpty(), best.end().Before(l.end()):
			best = l
		}
	}
	if best == nil || p.at.Sub(t.popped) > laneSpan {
		pushHeap(&t.heap, p)
		return
	}
	best.add(p)
}

// pop removes and returns the earliest item. The timetable must not be empty.
func (t *timetable) pop() (p planned) {
	if l := t.earliest(); l != nil {
		p = l.pop()
	} else {
		p = popHeap(&t.heap)
	}
	t.popped = p.at
	return p
}

// earliest returns the lane with the earliest item, or nil if that is in the heap or there is none.
func (t *timetable) earliest() *lane {
	var found *lane
	for i := range t.lanes {
		l := &t.lanes[i]
		if !l.isEmpty() && (found == nil || l.head().Before(found.head())) {
			found = l
		}
	}
	if found != nil && len(t.heap) > 0 && t.heap[0].at.Before(found.head()) {
		return nil
	}
	return found
}

// next returns the time of the earliest item, or the zero time.
func (t *timetable) next() time.Time {
	if l := t.earliest(); l != nil {
		return l.head()
	}
	if len(t.heap) > 0 {
		return t.heap[0].at
	}
	return time.Time{}
}
