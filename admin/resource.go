package admin

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Holding says whether anything of a resource is held.
type Holding string

// The ways in which a resource is held or not.
const (
	HeldItself Holding = "held"    // it has locks of its own
	HeldAbove  Holding = "covered" // a lock on what lies above covers it
	HeldPartly Holding = "partly"  // something beneath it is held
	HeldNot    Holding = "free"
)

// ResourceState is a known resource: one that a job of the cluster names, or
// that is held.
type ResourceState struct {
	Resource string       `json:"resource"`
	Kind     locking.Kind `json:"kind"`
	State    Holding      `json:"state"`
	Locks    []Lock       `json:"locks"`   // its own, or those above that cover it
	Beneath  int          `json:"beneath"` // how many locks are held beneath it
	Waiting  int          `json:"waiting"` // how many runs it keeps waiting

	key string
}

// resourceStates lists what jobs name and what is held: what keeps others
// waiting first, then what is held, then the rest, tables before others, each
// by name.
func resourceStates(named []locking.Resource, locks []Lock, waiting []jobs.Record) []ResourceState {
	own := make(map[locking.Resource][]Lock)
	beneath := make(map[locking.Resource]int)
	known := make(map[locking.Resource]bool)
	for _, lock := range locks {
		known[lock.resource] = true
		own[lock.resource] = append(own[lock.resource], lock)
		for _, above := range lock.resource.Ancestors() {
			beneath[above]++
		}
	}
	for _, resource := range named {
		known[resource] = true
	}
	blocked := make(map[string]int)
	for _, run := range waiting {
		if run.BlockedBy != nil {
			blocked[run.BlockedBy.Resource]++
		}
	}
	states := make([]ResourceState, 0, len(known))
	for resource := range known {
		state := resourceState(resource, own, beneath[resource])
		state.Waiting = blocked[state.Resource]
		states = append(states, state)
	}
	slices.SortFunc(states, func(a, b ResourceState) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.kindRank(), b.kindRank()),
			cmp.Compare(a.key, b.key))
	})
	return states
}

func resourceState(resource locking.Resource, own map[locking.Resource][]Lock,
	beneath int) ResourceState {
	state := ResourceState{
		Resource: resource.String(), Kind: resource.Kind(), State: HeldNot,
		Locks: []Lock{}, Beneath: beneath, key: resource.Key(),
	}
	if beneath > 0 {
		state.State = HeldPartly
	}
	for _, above := range resource.Ancestors() {
		if len(own[above]) > 0 {
			state.State, state.Locks = HeldAbove, append(state.Locks, own[above]...)
		}
	}
	if len(own[resource]) > 0 {
		state.State, state.Locks = HeldItself, own[resource]
	}
	return state
}

func (r ResourceState) rank() int {
	switch {
	case r.Waiting > 0:
		return 0
	case r.State == HeldItself:
		return 1
	case r.State != HeldNot:
		return 2
	}
	return 3
}

func (r ResourceState) kindRank() int {
	if r.Kind == locking.KindTable {
		return 0
	}
	return 1
}
