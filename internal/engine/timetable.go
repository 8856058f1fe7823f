package engine

import "time"

// planned is a scheduled time of a job in the timetable. It is processed at the scheduled time,
// when the next one is planned, and again when its delay ends.
type planned struct {
	at          time.Time
	scheduledAt time.Time
	delayed     bool
	entry       *entry
}

func (p planned) before(other planned) bool { return p.at.Before(other.at) }

// timetable is a heap of the next scheduled time of every job, and of earlier ones whose delays
// have not ended. The first to be processed is on top.
type timetable []planned

// add plans the entry's first scheduled time after t, if there is one.
func (t *timetable) add(e *entry, after time.Time) {
	if scheduledAt := e.Schedule.Next(after); !scheduledAt.IsZero() {
		t.put(planned{at: scheduledAt.UTC(), scheduledAt: scheduledAt.UTC(), entry: e})
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
