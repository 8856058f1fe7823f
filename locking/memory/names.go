package memory

import (
	"container/list"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// party is one holder or waiter.
type party struct {
	id        uuid.UUID
	owner     locking.Owner
	requests  []locking.Request
	session   *session
	token     locking.Token // 0 for a waiter
	since     time.Time
	age       uint64    // order of waiters: the smaller goes first
	reserved  time.Time // end of the reservation, until which younger waiters yield
	positions []position
}

// stake is one resource of a party.
type stake struct {
	*party
	locking.Request
}

func (s *stake) blocker() *locking.GrantBlocker {
	return &locking.GrantBlocker{ID: s.id, Resource: s.Resource, Holder: s.owner, Since: s.since,
		Waiting: s.token == 0}
}

// names has, for each name, the holders and waiters of it and of all names beneath
// it. So the blockers of a request are found at its name and its ancestors.
type names map[locking.Resource]*name

type name struct {
	here, beneath stakes
	size          int // of all
}

type stakes struct{ holders, waiters stakeList }

// stakeList has stakes in order of arrival, shared ones separately. So shared
// requests need not pass the shared ones, which may be many.
type stakeList struct{ shared, other list.List }

// position is the position of a stake in one stakeList.
type position struct {
	name    locking.Resource
	list    *list.List
	element *list.Element
}

func (n names) add(p *party) {
	for _, r := range p.requests {
		s := &stake{p, r}
		n.put(s, r.Resource, &n.at(r.Resource).here)
		for _, above := range r.Resource.Ancestors() {
			n.put(s, above, &n.at(above).beneath)
		}
	}
}

func (n names) at(r locking.Resource) *name {
	found := n[r]
	if found == nil {
		found = &name{}
		n[r] = found
	}
	return found
}

func (n names) put(s *stake, at locking.Resource, where *stakes) {
	c := &where.holders
	if s.token == 0 {
		c = &where.waiters
	}
	l := &c.other
	if s.Mode == locking.Shared {
		l = &c.shared
	}
	n[at].size++
	s.positions = append(s.positions, position{at, l, l.PushBack(s)})
}

func (n names) remove(p *party) {
	for _, e := range p.positions {
		e.list.Remove(e.element)
		if n[e.name].size--; n[e.name].size == 0 {
			delete(n, e.name)
		}
	}
	p.positions = nil
}

// firstBlocker returns what blocks the party, or nil: a holder first, then an older
// waiter.
func (n names) firstBlocker(p *party, now time.Time) *stake {
	for _, r := range p.requests {
		if found := n.holder(r); found != nil {
			return found
		}
	}
	for _, r := range p.requests {
		if found := n.olderWaiter(r, p.age, now); found != nil {
			return found
		}
	}
	return nil
}

// holder returns a held stake that conflicts with r, or nil.
func (n names) holder(r locking.Request) *stake {
	if at := n[r.Resource]; at != nil {
		holders := &at.here.holders
		found := holders.first(r)
		if r.Mode == locking.Slotted && found != nil && found.Mode == locking.Slotted &&
			holders.other.Len() < r.Slots {
			found = nil // all holders have slots, and one slot is free
		}
		if found == nil {
			found = at.beneath.holders.first(r)
		}
		if found != nil {
			return found
		}
	}
	for _, above := range r.Resource.Ancestors() {
		if at := n[above]; at != nil {
			if found := at.here.holders.first(r); found != nil {
				return found
			}
		}
	}
	return nil
}

// olderWaiter returns a waiting stake that conflicts with r, is older than age and
// has a reservation, or nil.
func (n names) olderWaiter(r locking.Request, age uint64, now time.Time) *stake {
	if at := n[r.Resource]; at != nil {
		found := at.here.waiters.reserved(r, now)
		if r.Mode == locking.Slotted {
			found = at.olderSlotWaiter(r, age, now)
		}
		if found == nil || found.age >= age {
			found = at.beneath.waiters.reserved(r, now)
		}
		if found != nil && found.age < age {
			return found
		}
	}
	for _, above := range r.Resource.Ancestors() {
		if at := n[above]; at != nil {
			if found := at.here.waiters.reserved(r, now); found != nil && found.age < age {
				return found
			}
		}
	}
	return nil
}

// olderSlotWaiter is olderWaiter for a slot, among the waiters for the same name.
// Each older waiter takes one of the free slots. If the result is younger, no older
// waiter blocks.
func (n *name) olderSlotWaiter(r locking.Request, age uint64, now time.Time) *stake {
	if front := firstReserved(&n.here.waiters.shared, now); front != nil && front.age < age {
		return front
	}
	free := r.Slots - n.here.holders.other.Len()
	for e := n.here.waiters.other.Front(); e != nil; e = e.Next() {
		s := e.Value.(*stake)
		if !now.Before(s.party.reserved) {
			continue
		}
		if free--; s.Mode != locking.Slotted || free <= 0 {
			return s
		}
	}
	return nil
}

// first returns the oldest stake on a related name that conflicts with a request, or
// nil.
func (c *stakeList) first(r locking.Request) *stake {
	return c.older(r, front(&c.other), front(&c.shared))
}

// reserved is first among the waiters with a reservation.
func (c *stakeList) reserved(r locking.Request, now time.Time) *stake {
	return c.older(r, firstReserved(&c.other, now), firstReserved(&c.shared, now))
}

// older returns the older of two stakes that conflicts with the request. Either may
// be nil. Shared stakes do not conflict with shared requests.
func (c *stakeList) older(r locking.Request, other, shared *stake) *stake {
	switch {
	case r.Mode == locking.Shared || shared == nil:
		return other
	case other == nil || shared.age < other.age:
		return shared
	}
	return other
}

func front(l *list.List) *stake {
	if e := l.Front(); e != nil {
		return e.Value.(*stake)
	}
	return nil
}

// firstReserved returns the oldest stake of the list with a reservation, or nil.
func firstReserved(l *list.List, now time.Time) *stake {
	for e := l.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*stake); now.Before(s.party.reserved) {
			return s
		}
	}
	return nil
}
