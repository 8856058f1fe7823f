package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// AdvisoryState compares the advisory lock in memcached with a lock that the store granted.
type AdvisoryState string

// The states of an advisory lock.
const (
	AdvisoryHeld AdvisoryState = "held" // by the same run
	// by nobody: memcached lost it, or the run did not take it
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
}

// lockSet is all locks at one time, and the error of the query of memcached.
type lockSet struct {
	locks    []Lock // on resources
	own      []Lock // on job names, which only explain why a run waits
	advisory error
}

func (s *Server) locksJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) ([]Lock, error) {
		if err := param.Only(r); err != nil {
			return nil, err
		}
		set, err := s.reader.locks(ctx)
		return set.locks, err
	})
}

// locks returns all locks by resource.
func (r *reader) locks(ctx context.Context) (lockSet, error) {
	set, err := r.grants(ctx)
	if err != nil {
		return lockSet{}, err
	}
	set.advisory = r.compare(ctx, set.locks)
	if !slices.ContainsFunc(set.locks, Lock.doubtful) {
		return set, nil
	}
	// Memcached was queried after the store, so a run that ended in between looks as if it had lost
	// its advisory lock. Only locks that the store still has count.
	again, err := r.grants(ctx)
	if err != nil {
		return lockSet{}, err
	}
	current := make(map[lockKey]bool)
	for _, lock := range again.locks {
		current[lock.key()] = true
	}
	set.locks = slices.DeleteFunc(set.locks, func(l Lock) bool {
		return l.doubtful() && !current[l.key()]
	})
	return set, nil
}

type lockKey struct {
	resource locking.Resource
	token    jobs.Token
}

func (l Lock) key() lockKey { return lockKey{l.resource, l.Token} }

func (l Lock) doubtful() bool {
	return l.Advisory == AdvisoryMissing || l.Advisory == AdvisoryOther
}

func (r *reader) grants(ctx context.Context) (lockSet, error) {
	views, err := r.store.Locks(ctx)
	if err != nil {
		return lockSet{}, fmt.Errorf("locks: %w", err)
	}
	set := lockSet{locks: make([]Lock, 0, len(views))}
	for _, v := range views {
		lock := Lock{
			Resource: v.Resource.String(), Mode: v.Mode, Slots: v.Slots, Holder: v.Holder,
			Token: v.Token,
			Since: v.Since.UTC(), ExpiresAt: v.Expires.UTC(), Advisory: AdvisoryOff,
			resource: v.Resource,
		}
		if v.Resource.Kind() == locking.KindJob {
			set.own = append(set.own, lock)
		} else {
			set.locks = append(set.locks, lock)
		}
	}
	slices.SortFunc(set.locks, func(a, b Lock) int {
		return cmp.Or(cmp.Compare(a.resource.Key(), b.resource.Key()),
			cmp.Compare(a.Token, b.Token))
	})
	return set, nil
}

// compare sets the advisory state of each lock. Its error is no reason to withhold the locks.
func (r *reader) compare(ctx context.Context, locks []Lock) error {
	var asked []locking.Resource
	for _, lock := range locks {
		if lock.Mode == locking.Exclusive {
			asked = append(asked, lock.resource)
		}
	}
	if r.advisory == nil || len(asked) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, advisoryTimeout)
	defer cancel()
	holders, err := r.advisory.Inspect(ctx, slices.Compact(asked))
	for i := range locks {
		if locks[i].Mode == locking.Exclusive {
			locks[i].judge(holders, err)
		}
	}
	return err
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
