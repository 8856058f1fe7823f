package locks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Holding is the lock state of a resource.
type Holding string

// The lock states of a resource.
const (
	HeldItself Holding = "held"    // the resource has locks
	HeldAbove  Holding = "covered" // a lock on an ancestor covers it
	HeldPartly Holding = "partly"  // a descendant is held
	HeldNot    Holding = "free"
)

// ResourceState is a resource that a job names or a run holds.
type ResourceState struct {
	Resource string       `json:"resource"`
	Kind     locking.Kind `json:"kind"`
	State    Holding      `json:"state"`
	Locks    []Lock       `json:"locks"`   // its own, or those of ancestors that cover it
	Beneath  int          `json:"beneath"` // number of locks on descendants
	Waiting  int          `json:"waiting"` // number of runs that wait for it

	key string
}

// overviewLocks is the number of locks of one resource that the overview lists.
const overviewLocks = 5

// LocksShown returns the locks that the overview lists.
func (r ResourceState) LocksShown() []Lock { return r.Locks[:min(len(r.Locks), overviewLocks)] }

// LocksMore returns the number of locks that the overview does not list.
func (r ResourceState) LocksMore() int { return len(r.Locks) - len(r.LocksShown()) }

// MostUrgent returns n of the resources: those with the most waiting runs, then those that are held
// longest. It keeps their order.
func MostUrgent(states []ResourceState, n int) []ResourceState {
	if len(states) <= n {
		return states
	}
	places := make([]int, len(states))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int {
		return cmp.Or(cmp.Compare(states[b].Waiting, states[a].Waiting),
			states[a].heldSince().Compare(states[b].heldSince()))
	})
	places = places[:n]
	slices.Sort(places)
	urgent := make([]ResourceState, n)
	for i, place := range places {
		urgent[i] = states[place]
	}
	return urgent
}

// heldSince returns when the oldest of the locks was granted, or a time in the far future.
func (r ResourceState) heldSince() time.Time {
	oldest := time.Unix(1<<40, 0)
	for _, lock := range r.Locks {
		if lock.Since.Before(oldest) {
			oldest = lock.Since
		}
	}
	return oldest
}

// ResourceStates returns the named and the held resources: waited-for ones first, then held ones,
// then the rest, tables before others, each by name.
func ResourceStates(named []locking.Resource, locks []Lock,
	waiting []storage.Record) []ResourceState {
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

// Resource is a resource that a job locks while it runs.
type Resource struct {
	Resource string       `json:"resource"`
	Mode     locking.Mode `json:"mode"`
	Slots    int          `json:"slots,omitempty"`
}

// ResourcesOf returns the resources of the requests, without the job's own name.
func ResourcesOf(requests []locking.Request) []Resource {
	resources := make([]Resource, 0, len(requests))
	for _, request := range requests {
		if request.Resource.Kind() != locking.KindJob {
			resources = append(resources,
				Resource{request.Resource.String(), request.Mode, request.Slots})
		}
	}
	return resources
}

// ResourceWords lists resources, as many as fit in a sentence.
func ResourceWords(list []Resource) string {
	const most = 5
	if len(list) == 0 {
		return "nothing else"
	}
	var names []string
	for _, r := range list[:min(len(list), most)] {
		names = append(names, words.Cut(r.Resource, 100))
	}
	if more := len(list) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
