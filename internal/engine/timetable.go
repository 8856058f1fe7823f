package engine

import "time"

// planned is a scheduled time of a job in the timetable. It is processed at the scheduled time,
// when the next one is planned, again when its delay ends, and again when this replica may try it.
type planned struct {
	at          time.Time
	scheduledAt time.Time
	delayed     bool
	ranked      bool  // rank is set
	rank        int16 // this replica's rank for the firing (see ranking), or unranked
	entry       *entry
}

func (p planned) before(other planned) bool { return p.at.Before(other.at) }

// timetable is a heap of the next scheduled time of every job, and of earlier ones whose delays
// have not ended. The first to be processed is on top.
type timetable []planned

// add plans the entry's first scheduled time after t. It returns this time, or the zero time if
// there is none.
func (t *timetable) add(e *entry, after time.Time) time.Time {
	scheduledAt := e.Schedule.Next(after)
	if !scheduledAt.IsZero() {
		t.put(planned{at: scheduledAt.UTC(), scheduledAt: scheduledAt.UTC(), entry: e})
	}
	return scheduledAt
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

// defers ranks this replica for a scheduled time that was popped. If other replicas may try it
// first, it plans the time when this replica may, and reports whether that is after now. next is
// the next scheduled time, or the zero time if it is unknown.
func (t *timetable) defers(p *planned, next time.Time, r *ranking, now time.Time) bool {
	if p.ranked {
		return false
	}
	p.ranked, p.rank = true, int16(r.rank(p.entry.Name, p.scheduledAt, time.Now()))
	if p.rank <= 0 {
		return false
	}
	if next.IsZero() {
		next = p.entry.Schedule.Next(p.scheduledAt)
	}
	delay := p.entry.rankDelay(int(p.rank), p.scheduledAt, next)
	if p.at = p.at.Add(delay); p.at.After(now) {
		t.put(*p)
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
