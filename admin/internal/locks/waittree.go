package locks

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// WaitTree is a holder with the runs that wait for it, directly or through each other. The runs of
// a tree without a holder have no known blocker.
type WaitTree struct {
	Holder   locking.Owner
	Resource string // that the holder had when a waiter asked last; "" if it is unknown
	// Lock is the holder's lock on it. Nil: it has been released, and the waiters ask again soon,
	// or it is only an advisory lock.
	Lock *Lock
	// Others are the other locks on the same resource, the oldest first: slots of a semaphore, or
	// shared locks.
	Others  []Lock
	Runs    int            // waiting runs in the whole tree
	Since   time.Time      // of the oldest wait
	Waiters []*Waiter      // oldest first
	Bar     charts.WaitBar // of the lock; empty on pages that do not show it
}

// shownOthers is the number of other holders that a page names.
const shownOthers = 4

// OthersShown returns the other locks whose holders the page names.
func (t *WaitTree) OthersShown() []Lock { return t.Others[:min(len(t.Others), shownOthers)] }

// OthersMore returns the number of other locks whose holders the page does not name.
func (t *WaitTree) OthersMore() int { return len(t.Others) - len(t.OthersShown()) }

// OwnName reports whether the waiters wait for the end of the run of their own job, which holds the
// name of the job.
func (t *WaitTree) OwnName() bool { return isJobName(t.Resource) }

// Slots returns how many slots the holders have, or 0 if the resource has none.
func (t *WaitTree) Slots() int {
	if t.Lock == nil || t.Lock.Mode != locking.Slotted {
		return 0
	}
	return 1 + len(t.Others)
}

// HeldLocks finds the locks of holders.
type HeldLocks struct {
	byRun      map[string][]Lock
	byResource map[string][]Lock // the oldest first
}

// NewHeldLocks returns the locks of a set.
func NewHeldLocks(set Set) HeldLocks {
	n := len(set.Locks) + len(set.Own)
	h := HeldLocks{make(map[string][]Lock, n), make(map[string][]Lock, n)}
	for _, lock := range slices.Concat(set.Locks, set.Own) {
		h.byRun[lock.Holder.Run] = append(h.byRun[lock.Holder.Run], lock)
		h.byResource[lock.Resource] = append(h.byResource[lock.Resource], lock)
	}
	for _, list := range h.byResource {
		slices.SortStableFunc(list, func(a, b Lock) int {
			return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Token, b.Token))
		})
	}
	return h
}

// OfRun returns the locks of a run, by its id.
func (h HeldLocks) OfRun(run string) []Lock { return h.byRun[run] }

// of finds the lock of a root for which its waiters wait: on the resource of the root, or on a
// related one, such as a table of a schema. It returns all locks on the same resource, the oldest
// first, or nothing if the root has no such lock. A waiter names only one of the holders that share
// a resource, and may name another one at each try.
func (h HeldLocks) of(root Root) []Lock {
	wanted, err := locking.ParseDisplay(root.Resource)
	if err != nil {
		return nil
	}
	for _, lock := range h.byRun[root.Holder.Run] {
		if at, err := locking.ParseDisplay(lock.Resource); err == nil && at.Related(wanted) {
			return h.byResource[lock.Resource]
		}
	}
	return nil
}

// NewWaitTrees arranges waiting runs, which are sorted, below the holders that they wait for in the
// end. The tree with the most runs is first, then the one with the oldest wait.
func NewWaitTrees(waiting []storage.Record, held HeldLocks) []*WaitTree {
	chains := NewChains(waiting)
	nodes := make(map[string]*Waiter, len(waiting))
	for _, run := range waiting {
		nodes[run.ID.String()] = &Waiter{Record: run}
	}
	var trees []*WaitTree
	byHolder := make(map[locking.Owner]*WaitTree)
	for _, run := range waiting {
		node, root := nodes[run.ID.String()], chains.Root(run)
		holding := held.of(root)
		if len(holding) > 0 {
			root = Root{holding[0].Holder, holding[0].Resource}
		}
		// Only the root decides about the tree, so that a circle of waits cannot lose runs.
		t, known := byHolder[root.Holder]
		if !known {
			t = &WaitTree{Holder: root.Holder, Resource: root.Resource, Since: records.Since(run)}
			if len(holding) > 0 {
				t.Lock, t.Others = &holding[0], holding[1:]
			}
			byHolder[root.Holder], trees = t, append(trees, t)
		}
		t.Runs++
		if before := Before(chains.waiting, run); before != "" {
			nodes[before].Waiters = append(nodes[before].Waiters, node)
		} else {
			t.Waiters = append(t.Waiters, node)
		}
	}
	slices.SortStableFunc(trees, func(a, b *WaitTree) int { return cmp.Compare(b.Runs, a.Runs) })
	return trees
}

// CutTrees returns the trees with at most n runs in total, and the number of runs that it leaves
// out.
func CutTrees(trees []*WaitTree, n int) (shown []*WaitTree, left int) {
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

func cutWaiters(waiters []*Waiter, n *int) (shown []*Waiter) {
	for _, w := range waiters {
		if *n <= 0 {
			break
		}
		*n--
		shown = append(shown, &Waiter{Record: w.Record, Waiters: cutWaiters(w.Waiters, n)})
	}
	return shown
}
