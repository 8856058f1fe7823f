package locks

import (
	"cmp"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Waiter is a waiting run with the runs that wait behind it.
type Waiter struct {
	storage.Record
	Waiters []*Waiter // oldest first

	nested bool // it is one of the Waiters of another one
}

// Wants returns the resource that the run waits for, or "".
func (w *Waiter) Wants() string {
	if w.BlockedBy == nil {
		return ""
	}
	return w.BlockedBy.Resource
}

// Nested reports whether the run is listed below the run that it waits behind.
func (w *Waiter) Nested() bool { return w.nested }

// Before returns the id of the waiting run that a run waits behind, or "" if it is the first of its
// chain, or its chain ends in a circle. The map has waiting runs by their ids.
func Before(waiting map[string]storage.Record, run storage.Record) string {
	if run.BlockedBy == nil {
		return ""
	}
	before := run.BlockedBy.Holder.Run
	at, known := waiting[before]
	if !known {
		return ""
	}
	for range len(waiting) { // to the end of the chain
		if at.BlockedBy == nil {
			return before
		}
		if at, known = waiting[at.BlockedBy.Holder.Run]; !known {
			return before
		}
	}
	return ""
}

// nest arranges waiting runs below the runs that they wait behind, as far as these are in the list.
func nest(runs []storage.Record) (first []*Waiter) {
	waiting := make(map[string]storage.Record, len(runs))
	nodes := make(map[string]*Waiter, len(runs))
	for _, run := range runs {
		waiting[run.ID.String()], nodes[run.ID.String()] = run, &Waiter{Record: run}
	}
	for _, run := range runs {
		node := nodes[run.ID.String()]
		if before := Before(waiting, run); before != "" {
			node.nested = true
			nodes[before].Waiters = append(nodes[before].Waiters, node)
		} else {
			first = append(first, node)
		}
	}
	return first
}

// WaiterList is waiting runs for the template.
type WaiterList struct {
	Now     time.Time
	Waiters []*Waiter
	Free    bool // the holder that they waited for has released the resource
}

// NewWaiterList returns a list of waiting runs.
func NewWaiterList(now time.Time, waiters []*Waiter, free bool) WaiterList {
	return WaiterList{now, waiters, free}
}

// Awaited names the run that a run of the list waits for, or returns "".
func (l WaiterList) Awaited(w *Waiter) string {
	switch b := w.BlockedBy; {
	case b == nil || l.Free && !b.Waiting:
		return ""
	case b.Holder.Job == w.Job:
		return "its earlier run"
	default:
		return cmp.Or(b.Holder.Job, "a program")
	}
}
