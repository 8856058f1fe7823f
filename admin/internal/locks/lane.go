package locks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Lane is one resource, and the runs that lock it or an ancestor.
type Lane struct {
	Resource string                `json:"resource"`
	Jobs     int                   `json:"jobs"` // number of jobs that lock it
	Held     int                   `json:"held"` // current number of locks
	Waiting  int                   `json:"waiting"`
	Runs     []storage.RunInterval `json:"runs"` // newest first

	resource locking.Resource
	jobs     []string
	waited   time.Duration
}

// unranked is the rank of a lane that is neither asked for nor held nor waited for.
const unranked = 3

func (l *Lane) rank(about *locking.Resource) int {
	switch {
	case about != nil && l.resource == *about:
		return 0
	case l.Waiting > 0:
		return 1
	case l.Held > 0:
		return 2
	}
	return unranked
}

// lanes returns the resources that jobs name or runs hold: held or waited-for ones first, then
// those with the longest waits within the window, then by name.
func (r *Reader) lanes(ctx context.Context, now time.Time, q TimelineQuery) ([]Lane, error) {
	index, err := r.requests.Get(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("query locked resources: %w", err)
	}
	set, err := r.Grants(ctx)
	if err != nil {
		return nil, err
	}
	waiting, err := r.Runs(ctx, storage.RunFilter{States: []jobs.State{jobs.Waiting},
		Later: new(false), Limit: storage.MaxBatch})
	if err != nil {
		return nil, err
	}
	sums, err := r.waitSums(ctx, q.window, now)
	if err != nil {
		return nil, err
	}
	lanes := slices.Clone(index.lanes)
	unnamed := make(map[locking.Resource]int) // places of the lanes that no job names
	find := func(resource locking.Resource) *Lane {
		if place, ok := index.places[resource]; ok {
			return &lanes[place]
		}
		if place, ok := unnamed[resource]; ok {
			return &lanes[place]
		}
		return nil
	}
	for _, lock := range set.Locks {
		l := find(lock.resource)
		if l == nil {
			unnamed[lock.resource] = len(lanes)
			lanes = append(lanes, index.newLane(lock.resource))
			l = &lanes[len(lanes)-1]
		}
		l.Held++
	}
	for _, run := range waiting {
		if resource, ok := records.BlockedOn(run); ok {
			if l := find(resource); l != nil {
				l.Waiting++
			}
		}
	}
	for _, sum := range sums {
		if resource, err := locking.ParseDisplay(sum.Resource); err == nil {
			if l := find(resource); l != nil {
				l.waited += sum.Waited
			}
		}
	}
	return sortedLanes(lanes, q.resource), nil
}

// sortedLanes sorts lanes that are sorted by resource, except for a few. If about is not nil, it
// returns only related resources.
func sortedLanes(lanes []Lane, about *locking.Resource) []Lane {
	first, others := []Lane{}, []Lane{}
	for _, l := range lanes {
		switch {
		case about != nil && !l.resource.Related(*about):
		case l.rank(about) < unranked || l.waited > 0:
			first = append(first, l)
		default:
			others = append(others, l)
		}
	}
	slices.SortFunc(first, func(a, b Lane) int {
		return cmp.Or(cmp.Compare(a.rank(about), b.rank(about)), cmp.Compare(b.waited, a.waited),
			byKind(a.resource, b.resource))
	})
	return append(first, others...)
}

func countNew(known map[string]bool, names []string) (n int) {
	for _, name := range names {
		if !known[name] {
			n++
		}
	}
	return n
}
