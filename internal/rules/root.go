package rules

import (
	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// maxChain bounds the search along waiting blockers, and so ends a cycle.
const maxChain = 8

// Root returns the holder for which the waiter waits, directly or through other waiters. It returns
// zero if the holder has released its lock since. blocker returns the blocker of a run's last
// refusal, or nil. holds reports whether a run has a claim.
func Root(waiter uuid.UUID, blocker func(run uuid.UUID) (*jobs.Blocker, error),
	holds func(run uuid.UUID) (bool, error)) (jobs.Root, error) {
	for range maxChain {
		b, err := blocker(waiter)
		if err != nil || b == nil {
			return jobs.Root{}, err
		}
		if waiter, err = uuid.Parse(b.Holder.Run); err != nil {
			return jobs.Root{}, nil // a blocker with only an advisory lock is perhaps not a run
		}
		if !b.Waiting {
			if held, err := holds(waiter); err != nil || !held {
				return jobs.Root{}, err
			}
			return jobs.Root{Resource: b.Resource, Holder: b.Holder}, nil
		}
	}
	return jobs.Root{}, nil
}
