package lockhistory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-dev/holdfast/locking"
)

// checkLimit bounds one search of porcupine. Histories of this package take milliseconds. A history
// that reaches the limit is an error.
const checkLimit = time.Minute

// relation decides which classes of requests may be held together. A class is a resource, a mode
// and a number of slots.
type relation struct {
	classes   []locking.Request
	of        map[*Lock][]int // each lock's classes
	conflicts [][]bool
	sameSlots [][]bool // both are slotted, on one name
}

func relate(locks []*Lock) *relation {
	r := &relation{of: map[*Lock][]int{}}
	known := map[locking.Request]int{}
	for _, k := range locks {
		for _, request := range k.Requests {
			class, seen := known[request.Request]
			if !seen {
				class = len(r.classes)
				known[request.Request] = class
				r.classes = append(r.classes, request.Request)
			}
			r.of[k] = append(r.of[k], class)
		}
	}
	for _, a := range r.classes {
		conflicts, sameSlots := make([]bool, len(r.classes)), make([]bool, len(r.classes))
		for j, b := range r.classes {
			conflicts[j] = locking.Conflict(a, b)
			sameSlots[j] = a.Resource == b.Resource && a.Mode == locking.Slotted &&
				b.Mode == locking.Slotted
		}
		r.conflicts, r.sameSlots = append(r.conflicts, conflicts), append(r.sameSlots, sameSlots)
	}
	return r
}

// holding is a state of the model: the holders, and the largest token of each class. It is
// immutable.
type holding struct {
	locks []*Lock
	high  []locking.Token
}

func (r *relation) nothing() holding { return holding{high: make([]locking.Token, len(r.classes))} }

// admits reports whether the lock may be granted in this state.
func (r *relation) admits(s holding, k *Lock) bool {
	if !r.bears(s.locks, k) || !r.grows(s.high, k) {
		return false
	}
	for _, mine := range r.of[k] {
		if wanted := r.classes[mine]; wanted.Mode == locking.Slotted &&
			len(r.slotted(s.locks, mine)) >= wanted.Slots {
			return false
		}
	}
	return true
}

// bears reports whether none of the locks conflicts with k.
func (r *relation) bears(locks []*Lock, k *Lock) bool {
	for _, mine := range r.of[k] {
		for _, other := range locks {
			if slices.ContainsFunc(r.of[other], func(theirs int) bool {
				return r.conflicts[mine][theirs]
			}) {
				return false
			}
		}
	}
	return true
}

// grows reports whether the lock's token is larger than those of all conflicting locks before it.
func (r *relation) grows(high []locking.Token, k *Lock) bool {
	for _, mine := range r.of[k] {
		for theirs, token := range high {
			if r.conflicts[mine][theirs] && k.Token != 0 && k.Token <= token {
				return false
			}
		}
	}
	return true
}

// slotted returns the number of slots of each lock that has a slot of the class's name.
func (r *relation) slotted(locks []*Lock, class int) (slots []int) {
	for _, k := range locks {
		for _, theirs := range r.of[k] {
			if r.sameSlots[class][theirs] {
				slots = append(slots, r.classes[theirs].Slots)
			}
		}
	}
	return slots
}

func (r *relation) grant(s holding, k *Lock) holding {
	next := holding{locks: append(slices.Clip(s.locks), k), high: slices.Clone(s.high)}
	for _, class := range r.of[k] {
		next.high[class] = max(next.high[class], k.Token)
	}
	return next
}

func (s holding) without(k *Lock) holding {
	return holding{locks: slices.DeleteFunc(slices.Clone(s.locks), func(o *Lock) bool {
		return o == k
	}), high: s.high}
}

func (s holding) has(k *Lock) bool { return slices.Contains(s.locks, k) }

// operation is one step of one lock, for porcupine.
type operation struct {
	step step
	lock *Lock
}

type step string

const (
	granting   step = "granted"
	committing step = "committed"
	freeing    step = "freed"
)

// modelOf returns the sequential specification. A lock is granted when no conflicting lock is held,
// with a larger token than all conflicting locks before it. It commits and is freed only while it
// is held.
func modelOf(r *relation) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return r.nothing() },
		Step: func(state, input, _ any) (bool, any) {
			s, op := state.(holding), input.(operation)
			switch {
			case op.step == granting && r.admits(s, op.lock):
				return true, r.grant(s, op.lock)
			case op.step == committing && s.has(op.lock):
				return true, s
			case op.step == freeing && s.has(op.lock):
				return true, s.without(op.lock)
			}
			return false, s
		},
		Equal: func(a, b any) bool {
			one, other := a.(holding), b.(holding)
			return slices.Equal(one.high, other.high) && len(one.locks) == len(other.locks) &&
				!slices.ContainsFunc(one.locks, func(k *Lock) bool { return !other.has(k) })
		},
		DescribeOperation: func(input, _ any) string {
			op := input.(operation)
			return fmt.Sprintf("%s %s", op.lock.ID, op.step)
		},
	}
}

// operations returns the steps of the locks, each with the time in which it took place.
func (h *History) operations(locks []*Lock) []porcupine.Operation {
	var all []porcupine.Operation
	for i, k := range locks {
		add := func(s step, at Span) {
			all = append(all, porcupine.Operation{ClientId: i, Input: operation{s, k},
				Call: at.Call, Return: at.Return})
		}
		add(granting, Span{max(k.Acquired.Call, k.From), k.Acquired.Return})
		for _, c := range k.Commits {
			if c.Outcome == Committed {
				// A step without an answer took place before its lock was freed. The earliest time
				// is as good as any later one.
				add(committing, Span{c.Call, min(c.Return, max(c.Call, k.Acquired.Return))})
			}
		}
		add(freeing, h.freed(k))
	}
	return all
}

// linearizable uses porcupine to check whether one order explains all steps of the locks.
func (h *History) linearizable(locks []*Lock) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(modelOf(relate(locks)), h.operations(locks), checkLimit)
}

// components splits the locks so that no two of different parts hold related resources. Each part
// has its own order.
func components(locks []*Lock) [][]*Lock {
	groups := newGroups()
	for _, k := range locks {
		for _, request := range k.Requests {
			groups.join(k.Requests[0].Resource, request.Resource)
		}
	}
	for resource := range groups.parent {
		for _, above := range resource.Ancestors() {
			if _, named := groups.parent[above]; named {
				groups.join(resource, above)
			}
		}
	}
	parts := map[locking.Resource][]*Lock{}
	for _, k := range locks {
		if len(k.Requests) > 0 {
			root := groups.find(k.Requests[0].Resource)
			parts[root] = append(parts[root], k)
		}
	}
	var all [][]*Lock
	for _, part := range parts {
		all = append(all, part)
	}
	slices.SortFunc(all, func(a, b []*Lock) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a[0].ID, b[0].ID))
	})
	return all
}

// groups are sets of resources that belong together (a union-find).
type groups struct {
	parent map[locking.Resource]locking.Resource
}

func newGroups() *groups { return &groups{map[locking.Resource]locking.Resource{}} }

func (g *groups) find(r locking.Resource) locking.Resource {
	parent, known := g.parent[r]
	if !known || parent == r {
		g.parent[r] = r
		return r
	}
	g.parent[r] = g.find(parent)
	return g.parent[r]
}

func (g *groups) join(a, b locking.Resource) { g.parent[g.find(a)] = g.find(b) }
