package admin

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// What the page shows of each node.
const (
	shownWaiters = 8
	shownHolders = 20 // a semaphore may have many
)

// lockNode is a resource, or what lies above some.
type lockNode struct {
	Name     string        `json:"name"` // beneath its parent
	Resource string        `json:"resource"`
	Kind     locking.Kind  `json:"kind"`
	State    Holding       `json:"state"`
	Locks    []Lock        `json:"locks,omitempty"`   // its own, or those above that cover it
	Waiting  []jobs.Record `json:"waiting,omitempty"` // for it, the oldest first
	// Of it and what lies beneath, also what this answer leaves out:
	Resources int         `json:"resources"` // that are known
	Held      int         `json:"held"`      // locks
	Waits     int         `json:"waits"`     // runs
	Beneath   []*lockNode `json:"beneath,omitempty"`

	parts int  // how many of Resources the answer has
	open  bool // the page shows what lies beneath
}

// arrange sorts what lies beneath a node, draws steps together that lead to one
// name only, and says what the page opens.
func (n *lockNode) arrange(all bool) {
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
	slices.SortStableFunc(n.Beneath, func(a, b *lockNode) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Name, b.Name))
	})
	n.open = all || n.Held > 0 || n.Waits > 0
}

// isPassThrough reports whether a node is nothing but the way to another.
func (n *lockNode) isPassThrough() bool {
	return len(n.Beneath) == 1 && n.Beneath[0].Resources == n.Resources && len(n.Waiting) == 0 &&
		n.State != HeldItself
}

func (n *lockNode) rank() int {
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

// Open reports whether the page shows what lies beneath.
func (n *lockNode) Open() bool { return n.open }

// Busy returns what the page shows one by one: what is held or waited for, and
// what has anything beneath it.
func (n *lockNode) Busy() []*lockNode { return n.split(false) }

// Idle returns the names of which there is nothing to say.
func (n *lockNode) Idle() []*lockNode { return n.split(true) }

func (n *lockNode) split(idle bool) (some []*lockNode) {
	for _, child := range n.Beneath {
		if (child.rank() > 1 && len(child.Beneath) == 0) == idle {
			some = append(some, child)
		}
	}
	return some
}

// More returns how many resources beneath the node the answer leaves out.
func (n *lockNode) More() int { return max(0, n.Resources-n.parts) }

// Own returns the node's own locks that the page shows.
func (n *lockNode) Own() []Lock {
	if n.State != HeldItself {
		return nil
	}
	return n.Locks[:min(len(n.Locks), shownHolders)]
}

// OwnMore returns how many it does not show.
func (n *lockNode) OwnMore() int {
	if n.State != HeldItself {
		return 0
	}
	return len(n.Locks) - len(n.Own())
}

// Covering returns the locks above that cover a node that is waited for.
func (n *lockNode) Covering() []Lock {
	if n.State != HeldAbove {
		return nil
	}
	return n.Locks[:min(len(n.Locks), shownLocks)]
}

// WaitingShown returns the runs that the page lists, the oldest.
func (n *lockNode) WaitingShown() []jobs.Record {
	return n.Waiting[:min(len(n.Waiting), shownWaiters)]
}

// WaitingMore returns how many it does not list.
func (n *lockNode) WaitingMore() int { return len(n.Waiting) - len(n.WaitingShown()) }

// Slots returns how many of a semaphore's slots are taken, and how many there are;
// 0 where it is none that is held.
func (n *lockNode) Slots() string {
	if n.State != HeldItself || n.Locks[0].Mode != locking.Slotted {
		return ""
	}
	return fmt.Sprintf("%d of %d slots", len(n.Locks), n.Locks[0].Slots)
}
