package locks

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// shownHolders is the number of holders that the page shows per node. A semaphore may have many.
const shownHolders = 20

// ResourceNode is a resource, or an ancestor of resources.
type ResourceNode struct {
	Name     string       `json:"name"` // relative to its parent
	Resource string       `json:"resource"`
	Kind     locking.Kind `json:"kind"`
	State    Holding      `json:"state"`
	// its own, or those of ancestors that cover it
	Locks   []Lock           `json:"locks,omitempty"`
	Waiting []storage.Record `json:"waiting,omitempty"` // runs that wait for it, oldest first
	// Sums over the node and its descendants, including those left out of this answer.
	Resources int             `json:"resources"` // known resources
	Held      int             `json:"held"`      // locks
	Waits     int             `json:"waits"`     // runs
	Beneath   []*ResourceNode `json:"beneath,omitempty"`

	path  string // with the names of its ancestors
	parts int    // number of Resources in this answer
	open  bool   // the page unfolds the node
}

// arrange sorts the children of a node, joins chains of nodes that have one child, and decides
// which nodes the page unfolds.
func (n *ResourceNode) arrange(all bool) {
	for i, child := range n.Beneath {
		child.arrange(all)
		for child.isPassThrough() {
			only := child.Beneath[0]
			only.Name = child.Name + "/" + only.Name
			child = only
		}
		n.Beneath[i] = child
		n.parts += child.parts
	}
	slices.SortStableFunc(n.Beneath, func(a, b *ResourceNode) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Name, b.Name))
	})
	n.open = all || n.Held > 0 || n.Waits > 0
}

// isPassThrough reports whether a node has one child and nothing else.
func (n *ResourceNode) isPassThrough() bool {
	return len(n.Beneath) == 1 && n.Beneath[0].Resources == n.Resources && len(n.Waiting) == 0 &&
		n.State != HeldItself
}

func (n *ResourceNode) rank() int {
	switch {
	case n.Waits > 0:
		return 0
	case n.Held > 0:
		return 1
	case n.State == HeldAbove:
		return 2
	}
	return 3
}

// Open reports whether the page unfolds the node.
func (n *ResourceNode) Open() bool { return n.open }

// Path returns the name of the node with those of its ancestors.
func (n *ResourceNode) Path() string { return n.path }

// Taken returns the node and its descendants that have locks of their own.
func (n *ResourceNode) Taken() (nodes []*ResourceNode) {
	if n.State == HeldItself {
		nodes = append(nodes, n)
	}
	for _, child := range n.Beneath {
		nodes = append(nodes, child.Taken()...)
	}
	return nodes
}

// Room returns for how many held resources the page of a kind reserves room.
func (n *ResourceNode) Room() int { return min(max(n.Resources, 1), 3) }

// Busy returns the children that the page shows as entries: those that are held, waited for, or
// have children.
func (n *ResourceNode) Busy() []*ResourceNode { return n.split(false) }

// Idle returns the other children, of which the page shows only the names.
func (n *ResourceNode) Idle() []*ResourceNode { return n.split(true) }

func (n *ResourceNode) split(idle bool) (some []*ResourceNode) {
	for _, child := range n.Beneath {
		if (child.rank() > 1 && len(child.Beneath) == 0) == idle {
			some = append(some, child)
		}
	}
	return some
}

// More returns the number of descendants that this answer leaves out.
func (n *ResourceNode) More() int { return max(0, n.Resources-n.parts) }

// Own returns the node's own locks that the page shows.
func (n *ResourceNode) Own() []Lock {
	if n.State != HeldItself {
		return nil
	}
	return n.Locks[:min(len(n.Locks), shownHolders)]
}

// OwnMore returns the number of own locks that the page does not show.
func (n *ResourceNode) OwnMore() int {
	if n.State != HeldItself {
		return 0
	}
	return len(n.Locks) - len(n.Own())
}

// Slots returns how many slots of a semaphore are taken, or "" for other nodes.
func (n *ResourceNode) Slots() string {
	if n.State != HeldItself || n.Locks[0].Mode != locking.Slotted {
		return ""
	}
	return words.Count(len(n.Locks)) + " of " + words.Figure(n.Locks[0].Slots, "slot", "slots")
}
