package locks

import (
	"cmp"
	"context"
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
func (r *ResourceState) heldSince() time.Time {
	oldest := time.Unix(1<<40, 0)
	for _, lock := range r.Locks {
		if lock.Since.Before(oldest) {
			oldest = lock.Since
		}
	}
	return oldest
}

// namedResources are the resources that jobs name, with their states when all are free. There may
// be tens of thousands, of which few are held, so a request handles only the latter. Nobody changes
// them.
type namedResources struct {
	list []locking.Resource
	free []ResourceState // tables before others, each by name
	// resources are those of free, in the same order
	resources []locking.Resource
	place     map[locking.Resource]int   // in free
	byName    map[string]int             // places in free, by the display names
	within    map[locking.Resource][]int // places in free of the descendants
}

func newNamedResources(list []locking.Resource) *namedResources {
	n := &namedResources{list: list, place: make(map[locking.Resource]int, len(list)),
		byName: make(map[string]int, len(list)), within: make(map[locking.Resource][]int)}
	resources := make(map[string]locking.Resource, len(list)) // by their keys
	for _, resource := range list {
		state := resourceState(resource, nil, 0)
		if _, twice := resources[state.key]; !twice {
			resources[state.key] = resource
			n.free = append(n.free, state)
		}
	}
	slices.SortFunc(n.free, compareStates)
	for i, state := range n.free {
		resource := resources[state.key]
		n.resources = append(n.resources, resource)
		n.place[resource], n.byName[state.Resource] = i, i
		for _, above := range resource.Ancestors() {
			n.within[above] = append(n.within[above], i)
		}
	}
	return n
}

// compareStates orders resources: waited-for ones first, then held ones, then the rest, tables
// before others, each by name.
func compareStates(a, b ResourceState) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.kindRank(), b.kindRank()),
		cmp.Compare(a.key, b.key))
}

// ResourceStates returns the named and the held resources: waited-for ones first, then held ones,
// then the rest, tables before others, each by name.
func ResourceStates(ctx context.Context, r *Reader, now time.Time, locks []Lock,
	waiting []storage.Record) ([]ResourceState, error) {
	named, err := namedOf(ctx, r, now)
	if err != nil {
		return nil, err
	}
	return named.states(locks, waiting), nil
}

func (n *namedResources) states(locks []Lock, waiting []storage.Record) []ResourceState {
	own := make(map[locking.Resource][]Lock, len(locks))
	beneath := make(map[locking.Resource]int)
	busy := make(map[locking.Resource]bool, len(locks))
	places := make(map[int]bool, len(locks)) // of busy resources in free
	add := func(resource locking.Resource) {
		busy[resource] = true
		if place, known := n.place[resource]; known {
			places[place] = true
		}
	}
	for _, lock := range locks {
		own[lock.resource] = append(own[lock.resource], lock)
		add(lock.resource)
		for _, above := range lock.resource.Ancestors() {
			beneath[above]++
			if _, known := n.place[above]; known {
				add(above)
			}
		}
		for _, place := range n.within[lock.resource] {
			places[place] = true
		}
	}
	blocked := make(map[string]int)
	for _, run := range waiting {
		if run.BlockedBy == nil {
			continue
		}
		blocked[run.BlockedBy.Resource]++
		if place, known := n.byName[run.BlockedBy.Resource]; known {
			places[place] = true
		}
	}
	for place := range places {
		busy[n.resources[place]] = true
	}
	states := make([]ResourceState, 0, len(n.free)+len(busy))
	for resource := range busy {
		state := resourceState(resource, own, beneath[resource])
		state.Waiting = blocked[state.Resource]
		states = append(states, state)
	}
	slices.SortFunc(states, compareStates)
	for i := range n.free {
		if !places[i] {
			states = append(states, n.free[i])
		}
	}
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

func (r *ResourceState) rank() int {
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

func (r *ResourceState) kindRank() int {
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
		names = append(names, words.Count(more)+" more")
	}
	return strings.Join(names, ", ")
}
