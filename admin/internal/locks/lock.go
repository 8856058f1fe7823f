package locks

import (
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// AdvisoryState compares the advisory lock in memcached with a lock that the store granted.
type AdvisoryState string

// The states of an advisory lock.
const (
	AdvisoryHeld AdvisoryState = "held" // by the same run
	// no owner has it: memcached lost it, or the run did not take it
	AdvisoryMissing AdvisoryState = "missing"
	AdvisoryOther   AdvisoryState = "other" // by another run
	// there is no memcached, or it takes no locks of this mode
	AdvisoryOff     AdvisoryState = "off"
	AdvisoryUnknown AdvisoryState = "unknown" // memcached did not answer
)

// Lock is a resource that a run holds. A program that uses locks without jobs may also hold it;
// then the holder has neither job nor run.
type Lock struct {
	Resource  string        `json:"resource"`
	Mode      locking.Mode  `json:"mode"`
	Slots     int           `json:"slots,omitempty"` // number of slots of the resource
	Holder    locking.Owner `json:"holder"`
	Token     jobs.Token    `json:"token"`
	Since     time.Time     `json:"since"`
	ExpiresAt time.Time     `json:"expires_at"` // unless the holder's replica renews its session
	Advisory  AdvisoryState `json:"advisory_lock"`

	resource locking.Resource
	other    locking.Holder // the holder in memcached, if it is another one
	typical  storage.Typical
}

// Set is all locks at one time, and the error of the query of memcached.
type Set struct {
	Locks    []Lock // on resources
	Own      []Lock // on job names, which only explain why a run waits
	Advisory error
}

type lockKey struct {
	resource locking.Resource
	token    jobs.Token
}

func (l Lock) key() lockKey { return lockKey{l.resource, l.Token} }

func (l Lock) doubtful() bool {
	return l.Advisory == AdvisoryMissing || l.Advisory == AdvisoryOther
}

func (l *Lock) judge(holders map[locking.Resource]locking.Holder, err error) {
	holder, found := holders[l.resource]
	switch {
	case err != nil:
		l.Advisory = AdvisoryUnknown
	case !found:
		l.Advisory = AdvisoryMissing
	case holder.Run == l.Holder.Run && holder.Job == l.Holder.Job:
		l.Advisory = AdvisoryHeld
	default:
		l.Advisory, l.other = AdvisoryOther, holder
	}
}

// OtherHolder names the holder in memcached, if it is another one.
func (l Lock) OtherHolder() string { return words.Holder(l.other.Owner) }
