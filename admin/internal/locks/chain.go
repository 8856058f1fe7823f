package locks

import (
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Chains follows the blockers of waiting runs.
type Chains struct {
	waiting map[string]storage.Record // by the run's id
}

// NewChains returns the chains of waiting runs.
func NewChains(waiting []storage.Record) Chains {
	c := Chains{make(map[string]storage.Record, len(waiting))}
	for _, run := range waiting {
		c.waiting[run.ID.String()] = run
	}
	return c
}

// Root is the holder at the end of a chain of waits, or nothing if the chain has no known holder.
type Root struct {
	Holder   locking.Owner
	Resource string // that it holds
}

// Name returns the job of the holder, or describes a holder that is no job; "" if there is none.
func (r Root) Name() string {
	switch {
	case r.Holder.Job != "":
		return r.Holder.Job
	case r.Holder != locking.Owner{}:
		return "a program on " + r.Holder.Replica
	}
	return ""
}

// Root returns the holder that a waiting run waits for, directly or through other waiting runs. It
// prefers the current blockers over the root that a run recorded when it began to wait.
func (c Chains) Root(run storage.Record) Root {
	seen := make(map[string]bool)
	for b := run.BlockedBy; b != nil; {
		next, known := c.waiting[b.Holder.Run]
		if !b.Waiting && !known {
			return Root{b.Holder, b.Resource}
		}
		if !known || seen[b.Holder.Run] || next.BlockedBy == nil {
			if b.Root != (jobs.Root{}) {
				return Root{b.Root.Holder, b.Root.Resource}
			}
			return Root{Holder: b.Holder}
		}
		seen[b.Holder.Run] = true
		b = next.BlockedBy
	}
	return Root{}
}
