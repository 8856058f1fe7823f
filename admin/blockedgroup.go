package admin

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// blockedGroup is a resource with its holders and the runs that wait for it.
type blockedGroup struct {
	Resource string        // "" if nothing blocks these runs
	Locks    []Lock        // of the runs that block, oldest first
	Runs     []jobs.Record // oldest first
}

// BlockedGroups groups the waiting runs by the resource that blocks them. The group with the oldest
// run is first. Runs that nothing blocks are last.
func (o *Overview) BlockedGroups() []blockedGroup {
	var groups []blockedGroup
	var unblocked blockedGroup
	indexes := make(map[string]int)
	for _, run := range o.Waiting {
		if run.BlockedBy == nil {
			unblocked.Runs = append(unblocked.Runs, run)
			continue
		}
		index, known := indexes[run.BlockedBy.Resource]
		if !known {
			index = len(groups)
			indexes[run.BlockedBy.Resource] = index
			groups = append(groups, blockedGroup{Resource: run.BlockedBy.Resource})
		}
		groups[index].Runs = append(groups[index].Runs, run)
	}
	for i := range groups {
		groups[i].Locks = o.blockingLocks(groups[i])
	}
	if len(unblocked.Runs) > 0 {
		groups = append(groups, unblocked)
	}
	return groups
}

// blockingLocks returns the current locks of the runs that block the group. A waiting run may name
// a table while its blocker holds the schema, or the reverse.
func (o *Overview) blockingLocks(b blockedGroup) []Lock {
	var locks []Lock
	asked := make(map[string]bool)
	for _, run := range b.Runs {
		blocker := run.BlockedBy.Holder.Run
		if asked[blocker] {
			continue
		}
		asked[blocker] = true
		for _, lock := range o.holders[blocker] {
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
func (b blockedGroup) Job() string {
	resource, err := locking.ParseKey(b.Resource)
	if err != nil || resource.Kind() != locking.KindJob {
		return ""
	}
	return resource.Path()
}

// LocksShown returns the locks that the page lists.
func (b blockedGroup) LocksShown() []Lock { return b.Locks[:min(len(b.Locks), shownLocks)] }

// LocksMore returns the number of locks that the page does not list.
func (b blockedGroup) LocksMore() int { return len(b.Locks) - len(b.LocksShown()) }

// Shown returns the runs that the page lists.
func (b blockedGroup) Shown() []jobs.Record { return b.Runs[:min(len(b.Runs), shownWaiting)] }

// More returns the number of runs that the page does not list.
func (b blockedGroup) More() int { return len(b.Runs) - len(b.Shown()) }
