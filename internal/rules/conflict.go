package rules

import (
	"bytes"
	"cmp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/locking"
)

// Contender is a resource that a claim holds, or that a waiting run with a reserved position wants.
type Contender struct {
	locking.Request
	Token jobs.Token // 0: it waits
	Since time.Time  // of a waiting run
	Run   uuid.UUID
	Owner locking.Owner

	Backfill bool // it is a run of a backfill
}

// Waits reports whether the contender is a waiting run.
func (c *Contender) Waits() bool { return c.Token == 0 }

// Older reports whether the contender has waited longer than a run that has waited since the given
// time.
func (c *Contender) Older(run uuid.UUID, since time.Time) bool {
	return cmp.Or(c.Since.Compare(since), bytes.Compare(c.Run[:], run[:])) < 0
}

// Reason returns why a run waits for the contender.
func (c *Contender) Reason() jobs.Reason {
	switch {
	case c.Waits():
		return reasons.OlderWaiter
	case c.Resource.Kind() == locking.KindJob:
		return reasons.Overlap
	case c.Resource.Kind() == locking.KindGroup:
		return reasons.GroupFull
	default:
		return reasons.LockHeld
	}
}

// Blocker returns the contender as a blocker, with the display form of its
// resource.
func (c *Contender) Blocker() *jobs.Blocker {
	return &jobs.Blocker{Resource: c.Resource.String(), Holder: c.Owner, Waiting: c.Waits()}
}

// Search finds the blocker of one request among contenders.
type Search struct {
	Request locking.Request

	first, inSlot *Contender
	inSlots       int
}

// Concerns reports whether the mode of a contender can conflict with the
// request. It is the cheapest check: a resource may have very many readers.
func (s *Search) Concerns(mode locking.Mode) bool {
	return s.Request.Mode != locking.Shared || mode != locking.Shared
}

// Counts reports whether a contender with that request can block the request, or can occupy one of
// its slots. Add ignores all others.
func (s *Search) Counts(q locking.Request) bool {
	return locking.Conflict(s.Request, q) || s.sharesSlots(q)
}

func (s *Search) sharesSlots(q locking.Request) bool {
	return s.Request.Mode == locking.Slotted && q.Mode == locking.Slotted &&
		q.Resource == s.Request.Resource
}

// Add takes a contender into account.
func (s *Search) Add(c *Contender) {
	switch {
	case locking.Conflict(s.Request, c.Request):
		s.first = First(s.first, c)
	case s.sharesSlots(c.Request):
		s.inSlots++
		s.inSlot = First(s.inSlot, c)
	}
}

// Blocker returns the contender that blocks the request, or nil.
func (s *Search) Blocker() *Contender {
	if s.Request.Mode == locking.Slotted && s.inSlots >= s.Request.Slots {
		return First(s.first, s.inSlot)
	}
	return s.first
}

// First returns the blocker of the two, either of which may be nil. It prefers a claim to a waiting
// run, and then a conflict over the name of the job to one over another resource. The choice is the
// same in every try while nothing changes.
func First(a, b *Contender) *Contender {
	if a == nil || b != nil && compare(b, a) < 0 {
		return b
	}
	return a
}

func compare(a, b *Contender) int {
	return cmp.Or(
		yesFirst(!a.Waits(), !b.Waits()),
		yesFirst(a.Resource.Kind() == locking.KindJob, b.Resource.Kind() == locking.KindJob),
		strings.Compare(a.Resource.Key(), b.Resource.Key()),
		cmp.Compare(a.Token, b.Token), a.Since.Compare(b.Since),
		bytes.Compare(a.Run[:], b.Run[:]))
}

func yesFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}
