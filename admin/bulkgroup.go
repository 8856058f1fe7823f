package admin

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// maxListed is the number of items that a page of a bulk action lists one by one. It groups the
	// items of a longer list.
	maxListed = 50
	// maxBulkGroups bounds the groups of a list.
	maxBulkGroups = 50
	// maxNamed bounds the items of a group that the page names.
	maxNamed = 10
)

// bulkGroups are the items of a long list in groups.
type bulkGroups struct {
	Groups []bulkGroup // the largest first
	Rest   int         // items of the other groups
	Others int         // groups that are left out
}

// bulkGroup are items of a bulk action with the same job, group of jobs, reason or result.
type bulkGroup struct {
	Name  string // what they have in common; "" for jobs without a group
	Items []bulkItem
}

// stateCount is a number of runs in a state.
type stateCount struct {
	State jobs.State
	Runs  int
}

// groupItems groups items by key if there are many of them. Otherwise it returns nil.
func groupItems(items []bulkItem, key func(bulkItem) string) *bulkGroups {
	if len(items) <= maxListed {
		return nil
	}
	indexes := make(map[string]int)
	g := new(bulkGroups)
	for _, item := range items {
		name := key(item)
		n, known := indexes[name]
		if !known {
			n = len(g.Groups)
			indexes[name] = n
			g.Groups = append(g.Groups, bulkGroup{Name: name})
		}
		g.Groups[n].Items = append(g.Groups[n].Items, item)
	}
	slices.SortStableFunc(g.Groups, func(a, b bulkGroup) int {
		return cmp.Or(len(b.Items)-len(a.Items), strings.Compare(a.Name, b.Name))
	})
	for _, other := range g.Groups[min(len(g.Groups), maxBulkGroups):] {
		g.Rest += len(other.Items)
		g.Others++
	}
	g.Groups = g.Groups[:min(len(g.Groups), maxBulkGroups)]
	return g
}

// ActGroups groups many runs by job, and many jobs by their group.
func (v *bulkView) ActGroups() *bulkGroups {
	return groupItems(v.Acts, func(i bulkItem) string {
		if i.Run != nil {
			return i.Job.Name
		}
		return i.Job.Group
	})
}

// LeftGroups groups many items that are left alone by reason.
func (v *bulkView) LeftGroups() *bulkGroups {
	return groupItems(v.Left, func(i bulkItem) string { return i.Reason })
}

// ResultGroups groups many results by what became of the items.
func (f form) ResultGroups() *bulkGroups {
	words := make(map[string]string, len(f.Results))
	items := make([]bulkItem, len(f.Results))
	for n, r := range f.Results {
		items[n] = r.bulkItem
		words[r.name()] = r.Words()
		if !r.Done() {
			words[r.name()] += ". " + r.Because()
		}
	}
	return groupItems(items, func(i bulkItem) string { return words[i.name()] })
}

// Named returns the items that the page names.
func (g bulkGroup) Named() []bulkItem { return g.Items[:min(len(g.Items), maxNamed)] }

// Unnamed returns the number of the other items.
func (g bulkGroup) Unnamed() int { return max(0, len(g.Items)-maxNamed) }

// States counts runs by state, the most frequent first.
func (g bulkGroup) States() []stateCount {
	var counts []stateCount
	for _, i := range g.Items {
		n := slices.IndexFunc(counts, func(c stateCount) bool { return c.State == i.Run.State })
		if n < 0 {
			n = len(counts)
			counts = append(counts, stateCount{State: i.Run.State})
		}
		counts[n].Runs++
	}
	slices.SortStableFunc(counts, func(a, b stateCount) int { return b.Runs - a.Runs })
	return counts
}

// First is the earliest scheduled time of the runs.
func (g bulkGroup) First() time.Time { return slices.MinFunc(g.Items, earlier).Run.ScheduledAt }

// Last is the latest scheduled time of the runs.
func (g bulkGroup) Last() time.Time { return slices.MaxFunc(g.Items, earlier).Run.ScheduledAt }

func earlier(a, b bulkItem) int { return a.Run.ScheduledAt.Compare(b.Run.ScheduledAt) }

// OwnParams counts the runs with params of their own.
func (g bulkGroup) OwnParams() (n int) {
	for _, i := range g.Items {
		if i.OwnParams {
			n++
		}
	}
	return n
}

// Active counts the waiting and running runs of the jobs.
func (g bulkGroup) Active() (n int) {
	for _, i := range g.Items {
		n += i.Active
	}
	return n
}
