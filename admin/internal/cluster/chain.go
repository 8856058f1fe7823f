package cluster

import (
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// chains follows the blockers of waiting runs.
type chains struct {
	waiting map[string]storage.Record // by the run's id
}

func newChains(waiting []storage.Record) chains {
	c := chains{make(map[string]storage.Record, len(waiting))}
	for _, run := range waiting {
		c.waiting[run.ID.String()] = run
	}
	return c
}

// root is the holder at the end of a chain of waits, or nothing if the chain has no known holder.
type root struct {
	holder   locking.Owner
	resource string // that it holds
}

// name returns the job of the holder, or describes a holder that is no job; "" if there is none.
func (r root) name() string {
	switch {
	case r.holder.Job != "":
		return r.holder.Job
	case r.holder != locking.Owner{}:
		return "a program on " + r.holder.Replica
	}
	return ""
}

// root returns the holder that a waiting run waits for, directly or through other waiting runs. It
// prefers the current blockers over the root that a run recorded when it began to wait.
func (c chains) root(run storage.Record) root {
	seen := make(map[string]bool)
	for b := run.BlockedBy; b != nil; {
		next, known := c.waiting[b.Holder.Run]
		if !b.Waiting && !known {
			return root{b.Holder, b.Resource}
		}
		if !known || seen[b.Holder.Run] || next.BlockedBy == nil {
			if b.Root != (jobs.Root{}) {
				return root{b.Root.Holder, b.Root.Resource}
			}
			return root{holder: b.Holder}
		}
		seen[b.Holder.Run] = true
		b = next.BlockedBy
	}
	return root{}
}

// waitsSince returns since when a run waits for a blocker or for a worker, or zero in a retry wait.
func waitsSince(run storage.Record) time.Time {
	if run.Reason == reasons.Retry {
		return time.Time{}
	}
	return records.Since(run)
}
