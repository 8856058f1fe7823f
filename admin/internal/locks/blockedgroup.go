package locks

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// The number of entries of each group that the page shows.
const (
	shownWaiting = 8
	shownLocks   = 5
)

// BlockedGroup is a resource with its holders and the runs that wait for it.
type BlockedGroup struct {
	Resource string           // "" if nothing blocks these runs
	Locks    []Lock           // of the runs that block, oldest first
	Runs     []storage.Record // oldest first
}

// NewBlockedGroups groups waiting runs by the resource that blocks them. The group with the oldest
// run is first. Runs that nothing blocks are last. Holders are the locks of each run, by its id.
func NewBlockedGroups(waiting []storage.Record, holders map[string][]Lock) []BlockedGroup {
	var groups []BlockedGroup
	var unblocked BlockedGroup
	indexes := make(map[string]int)
	for _, run := range waiting {
		if run.BlockedBy == nil {
			unblocked.Runs = append(unblocked.Runs, run)
			continue
		}
		index, known := indexes[run.BlockedBy.Resource]
		if !known {
			index = len(groups)
			indexes[run.BlockedBy.Resource] = index
			groups = append(groups, BlockedGroup{Resource: run.BlockedBy.Resource})
		}
		groups[index].Runs = append(groups[index].Runs, run)
	}
	for i := range groups {
		groups[i].Locks = blockingLocks(groups[i], holders)
	}
	if len(unblocked.Runs) > 0 {
		groups = append(groups, unblocked)
	}
	return groups
}

// blockingLocks returns the current locks of the runs that block the group. A waiting run may name
// a table while its blocker holds the schema, or the reverse.
func blockingLocks(b BlockedGroup, holders map[string][]Lock) []Lock {
	var locks []Lock
	asked := make(map[string]bool)
	for _, run := range b.Runs {
		blocker := run.BlockedBy.Holder.Run
		if asked[blocker] {
			continue
		}
		asked[blocker] = true
		for _, lock := range holders[blocker] {
			if related(lock.Resource, b.Resource) {
				locks = append(locks, lock)
				break
			}
		}
	}
	slices.SortFunc(locks, func(a, b Lock) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Token, b.Token))
	})
	return locks
}

func related(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// Job returns the job whose earlier run blocks the group, or "" for other resources.
func (b BlockedGroup) Job() string {
	resource, err := locking.ParseKey(b.Resource)
	if err != nil || resource.Kind() != locking.KindJob {
		return ""
	}
	return resource.Path()
}

// LocksShown returns the locks that the page lists.
func (b BlockedGroup) LocksShown() []Lock { return b.Locks[:min(len(b.Locks), shownLocks)] }

// LocksMore returns the number of locks that the page does not list.
func (b BlockedGroup) LocksMore() int { return len(b.Locks) - len(b.LocksShown()) }

// Shown returns the runs that the page lists.
func (b BlockedGroup) Shown() []storage.Record { return b.Runs[:min(len(b.Runs), shownWaiting)] }

// More returns the number of runs that the page does not list.
func (b BlockedGroup) More() int { return len(b.Runs) - len(b.Shown()) }
