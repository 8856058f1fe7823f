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

// timetable is a heap of the next scheduled time of every job, and of earlier ones whose delays
// have not ended. The first to be processed is on top.
type timetable []planned

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

// put adds an item that pop removed.
func (t *timetable) put(p planned) { pushHeap((*[]planned)(t), p) }

// pop removes and returns the earliest item.
func (t *timetable) pop() planned { return popHeap((*[]planned)(t)) }

// next returns the time of the earliest item, or the zero time.
func (t timetable) next() time.Time {
	if len(t) == 0 {
		return time.Time{}
	}
	return t[0].at
}
