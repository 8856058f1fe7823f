package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// maxHops bounds the waiting runs that the overview lists.
const maxHops = 12

// WaitTree is a holder with the runs that wait for it, directly or through each other. The runs of
// a tree without a holder have no known blocker.
type WaitTree struct {
	Holder   locking.Owner
	Resource string // that the holder had when a waiter asked last; "" if it is unknown
	// Lock is the holder's lock on it. Nil: it has been released, and the waiters ask again soon,
	// or it is only an advisory lock.
	Lock    *locks.Lock
	Runs    int             // waiting runs in the whole tree
	Since   time.Time       // of the oldest wait
	Waiters []*locks.Waiter // oldest first
}

// newWaitTrees arranges waiting runs, which are sorted, below the holders that they wait for in the
// end. The tree with the most runs is first, then the one with the oldest wait. Held are the locks
// of each run.
func newWaitTrees(waiting []storage.Record, held map[string][]locks.Lock) []*WaitTree {
	chains := newChains(waiting)
	nodes := make(map[string]*locks.Waiter, len(waiting))
	for _, run := range waiting {
		nodes[run.ID.String()] = &locks.Waiter{Record: run}
	}
	var trees []*WaitTree
	byHolder := make(map[locking.Owner]*WaitTree)
	for _, run := range waiting {
		node, root := nodes[run.ID.String()], chains.root(run)
		// Only the root decides about the tree, so that a circle of waits cannot lose runs.
		t, known := byHolder[root.holder]
		if !known {
			t = &WaitTree{Holder: root.holder, Resource: root.resource, Since: records.Since(run)}
			if t.Lock = lockOf(held[root.holder.Run], root.resource); t.Lock != nil {
				t.Resource = t.Lock.Resource
			}
			byHolder[root.holder], trees = t, append(trees, t)
		}
		t.Runs++
		if before := locks.Before(chains.waiting, run); before != "" {
			nodes[before].Waiters = append(nodes[before].Waiters, node)
		} else {
			t.Waiters = append(t.Waiters, node)
		}
	}
	slices.SortStableFunc(trees, func(a, b *WaitTree) int { return cmp.Compare(b.Runs, a.Runs) })
	return trees
}

// lockOf returns the lock that covers a resource or a part of it, or nil.
func lockOf(held []locks.Lock, resource string) *locks.Lock {
	wanted, err := locking.ParseDisplay(resource)
	if err != nil {
		return nil
	}
	for i := range held {
		if at, err := locking.ParseDisplay(held[i].Resource); err == nil && at.Related(wanted) {
			return &held[i]
		}
	}
	return nil
}

// cutTrees returns the trees with at most n runs in total, and the number of runs that it leaves
// out.
func cutTrees(trees []*WaitTree, n int) (shown []*WaitTree, left int) {
	for _, t := range trees {
		if n <= 0 {
			left += t.Runs
			continue
		}
		part, before := *t, n
		part.Waiters = cutWaiters(t.Waiters, &n)
		shown = append(shown, &part)
		left += t.Runs - (before - n)
	}
	return shown, left
}

func cutWaiters(waiters []*locks.Waiter, n *int) (shown []*locks.Waiter) {
	for _, w := range waiters {
		if *n <= 0 {
			break
		}
		*n--
		shown = append(shown, &locks.Waiter{Record: w.Record, Waiters: cutWaiters(w.Waiters, n)})
	}
	return shown
}

// WaitTreesShown returns the trees that the page lists.
func (o *Overview) WaitTreesShown() []*WaitTree {
	shown, _ := cutTrees(newWaitTrees(o.Waiting, o.holders), maxHops)
	return shown
}

// WaitTreesMore returns the number of waiting runs that the page does not list.
func (o *Overview) WaitTreesMore() int {
	_, left := cutTrees(newWaitTrees(o.Waiting, o.holders), maxHops)
	return left
}
