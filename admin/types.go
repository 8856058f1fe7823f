package admin

import "github.com/holdfast-dev/holdfast/admin/internal/locks"

// The types of Options and of answers of the API that are about locks.
type (
	// Advisory reads advisory locks. *locking.Locker implements it.
	Advisory = locks.Advisory
	// AdvisoryState compares the advisory lock in memcached with a lock that the store granted.
	AdvisoryState = locks.AdvisoryState
	// Lock is a resource that a run holds.
	Lock = locks.Lock
	// Resource is a resource that a job locks while it runs.
	Resource = locks.Resource
)

// The states of an advisory lock.
const (
	AdvisoryHeld    = locks.AdvisoryHeld
	AdvisoryMissing = locks.AdvisoryMissing
	AdvisoryOther   = locks.AdvisoryOther
	AdvisoryOff     = locks.AdvisoryOff
	AdvisoryUnknown = locks.AdvisoryUnknown
)
