package memory

import (
	"container/list"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// party is one lock that holds or waits.
type party struct {
	id       uuid.UUID
	owner    locking.Owner
	requests []locking.Request
	session  *session
	token    locking.Token // 0: it waits
	since    time.Time
	age      uint64    // of those that wait the smaller goes first
	reserved time.Time // until when those that are younger wait behind it
	entries  []entry
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

// names knows, for each name, what is held and waited for there, and anywhere
// beneath it: so what conflicts with a request is found at its name and its
// ancestors.
type names map[locking.Resource]*name

type name struct {
	here, beneath stakes
	size          int // of all
}

type stakes struct{ holders, waiters crowd }

// crowd is stakes in the order in which they came, those that share apart:
// shared requests don't have to pass them by, for there may be very many.
type crowd struct{ shared, other list.List }

// entry is a stake's place in one crowd.
type entry struct {
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
	s.entries = append(s.entries, entry{at, l, l.PushBack(s)})
}

func (n names) remove(p *party) {
	for _, e := range p.entries {
		e.list.Remove(e.element)
		if n[e.name].size--; n[e.name].size == 0 {
			delete(n, e.name)
		}
	}
	p.entries = nil
}

// against returns what stands in the way of the party, or nil: what holds
// first, then what has waited longer.
func (n names) against(p *party, now time.Time) *stake {
	for _, r := range p.requests {
		if found := n.holder(r); found != nil {
			return found
		}
	}
	for _, r := range p.requests {
		if found := n.elder(r, p.age, now); found != nil {
			return found
		}
	}
	return nil
}

// holder returns a stake that holds what r conflicts with, or nil.
func (n names) holder(r locking.Request) *stake {
	if at := n[r.Resource]; at != nil {
		holders := &at.here.holders
		found := holders.first(r)
		if r.Mode == locking.Slotted && found != nil && found.Mode == locking.Slotted &&
			holders.other.Len() < r.Slots {
			found = nil // then all that hold here have slots, and one is free
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

// elder returns a stake that waits for what r conflicts with, is older than age
// and has its place reserved, or nil.
func (n names) elder(r locking.Request, age uint64, now time.Time) *stake {
	if at := n[r.Resource]; at != nil {
		found := at.here.waiters.reserved(r, now)
		if r.Mode == locking.Slotted {
			found = at.elderThanSlot(r, age, now)
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

// elderThanSlot is elder for a slot among those that wait for the same name:
// each older one has one of the slots that are free. What it returns may be
// younger: then nothing older is in the way.
func (n *name) elderThanSlot(r locking.Request, age uint64, now time.Time) *stake {
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

// first returns the oldest stake that a request on a related name conflicts
// with, or nil.
func (c *crowd) first(r locking.Request) *stake {
	return c.older(r, front(&c.other), front(&c.shared))
}

// reserved is first among those that wait and have their places reserved.
func (c *crowd) reserved(r locking.Request, now time.Time) *stake {
	return c.older(r, firstReserved(&c.other, now), firstReserved(&c.shared, now))
}

// older returns the older of the two, either of which may be nil, with which the
// request conflicts: one that shares does not conflict with others that do.
func (c *crowd) older(r locking.Request, other, shared *stake) *stake {
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

// firstReserved returns the oldest of the list whose place is reserved, or nil.
func firstReserved(l *list.List, now time.Time) *stake {
	for e := l.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*stake); now.Before(s.party.reserved) {
			return s
		}
	}
	return nil
}
