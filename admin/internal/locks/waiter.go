package locks

import (
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Waiter is a waiting run with the runs that wait behind it.
type Waiter struct {
	storage.Record
	Waiters []*Waiter // oldest first
	// Limit and Bar are empty on pages that do not show them.
	Limit WaitLimit
	Bar   charts.WaitBar

	end time.Time // of the wait; zero: unknown, or without a limit
}

// Wants returns the resource that the run waits for, or "".
func (w *Waiter) Wants() string {
	if w.BlockedBy == nil {
		return ""
	}
	return w.BlockedBy.Resource
}

// BehindOwnRun reports whether the run waits for an earlier run of its job, and for no resource.
func (w *Waiter) BehindOwnRun() bool { return isJobName(w.Wants()) }

// isJobName reports whether a resource is the name of a job, which each run of the job holds.
func isJobName(resource string) bool {
	parsed, err := locking.ParseDisplay(resource)
	return err == nil && parsed.Kind() == locking.KindJob
}

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
