package jobs

import (
	"container/heap"
	"time"
)

// planned is a scheduled time of a job, and when it is to be looked at: at the scheduled time
// itself, from where the one behind it is planned, and again, delayed, when it starts.
type planned struct {
	at          time.Time
	scheduledAt time.Time
	delayed     bool
	entry       *entry
}

// timetable is a heap of every job's next scheduled time, and of those before it whose
// delay is not over. What is to be looked at first is first.
type timetable []planned

// add plans the entry's first scheduled time after t, if there is one.
func (t *timetable) add(e *entry, after time.Time) {
	if scheduledAt := e.Schedule.Next(after); !scheduledAt.IsZero() {
		t.put(planned{at: scheduledAt.UTC(), scheduledAt: scheduledAt.UTC(), entry: e})
	}
}

// delay plans the start of a scheduled time that was popped, and reports whether that is
// after now.
func (t *timetable) delay(p planned, now time.Time) bool {
	p.at, p.delayed = p.entry.startOf(p.scheduledAt), true
	if p.at.After(now) {
		t.put(p)
		return true
	}
	return false
}

// put plans what pop removed.
func (t *timetable) put(p planned) { heap.Push((*planHeap)(t), p) }

// pop removes the earliest.
func (t *timetable) pop() planned { return heap.Pop((*planHeap)(t)).(planned) }

// next returns when the earliest is to be looked at, or the zero time.
func (t timetable) next() time.Time {
	if len(t) == 0 {
		return time.Time{}
	}
	return t[0].at
}

type planHeap []planned

func (h planHeap) Len() int           { return len(h) }
func (h planHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h planHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *planHeap) Push(x any)        { *h = append(*h, x.(planned)) }
func (h *planHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
