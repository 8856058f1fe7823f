package jobs

import (
	"container/heap"
	"time"
)

// planned is a job's next due.
type planned struct {
	due   time.Time
	entry *entry
}

// timetable is a heap of every job's next due, the earliest first.
type timetable []planned

// add plans the entry's first due after t, if there is one.
func (t *timetable) add(e *entry, after time.Time) {
	if due := e.Schedule.Next(after); !due.IsZero() {
		t.put(planned{due: due.UTC(), entry: e})
	}
}

// put plans what pop removed.
func (t *timetable) put(p planned) { heap.Push((*planHeap)(t), p) }

// pop removes the earliest.
func (t *timetable) pop() planned { return heap.Pop((*planHeap)(t)).(planned) }

// next returns the earliest due, or the zero time.
func (t timetable) next() time.Time {
	if len(t) == 0 {
		return time.Time{}
	}
	return t[0].due
}

type planHeap []planned

func (h planHeap) Len() int           { return len(h) }
func (h planHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h planHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *planHeap) Push(x any)        { *h = append(*h, x.(planned)) }
func (h *planHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
