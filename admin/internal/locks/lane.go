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

func (l *Lane) rank(about *locking.Resource) int {
	switch {
	case about != nil && l.resource == *about:
		return 0
	case l.Waiting > 0:
		return 1
	case l.Held > 0:
		return 2
	}
	return 3
}

// lanes returns the resources that jobs name or runs hold: held or waited-for ones first, then
// those with the longest waits within the window, then by name.
func (r *Reader) lanes(ctx context.Context, now time.Time, q TimelineQuery) ([]Lane, error) {
	requests, err := r.requests.Get(ctx, now)
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
	by := make(map[locking.Resource]*Lane)
	find := func(resource locking.Resource) *Lane {
		if by[resource] == nil {
			by[resource] = &Lane{Resource: resource.String(), resource: resource,
				Runs: []storage.RunInterval{}}
		}
		return by[resource]
	}
	for _, r := range requests {
		for _, request := range r.Requests {
			l := find(request.Resource)
			l.jobs = append(l.jobs, r.Job)
		}
	}
	for _, lock := range set.Locks {
		find(lock.resource).Held++
	}
	for _, run := range waiting {
		if resource, ok := records.BlockedOn(run); ok && by[resource] != nil {
			by[resource].Waiting++
		}
	}
	for _, sum := range sums {
		if resource, err := locking.ParseDisplay(sum.Resource); err == nil && by[resource] != nil {
			by[resource].waited += sum.Waited
		}
	}
	return sortedLanes(by, q.resource), nil
}

// sortedLanes returns the lanes with the jobs that lock them or an ancestor. If about is not nil,
// it returns only related resources.
func sortedLanes(by map[locking.Resource]*Lane, about *locking.Resource) []Lane {
	lanes := make([]Lane, 0, len(by))
	for resource, l := range by {
		if about != nil && !resource.Related(*about) {
			continue
		}
		one := *l
		one.jobs = slices.Clone(l.jobs)
		for _, above := range resource.Ancestors() {
			if by[above] != nil {
				one.jobs = append(one.jobs, by[above].jobs...)
			}
		}
		slices.Sort(one.jobs)
		one.jobs = slices.Compact(one.jobs)
		one.Jobs = len(one.jobs)
		lanes = append(lanes, one)
	}
	slices.SortFunc(lanes, func(a, b Lane) int {
		return cmp.Or(cmp.Compare(a.rank(about), b.rank(about)), cmp.Compare(b.waited, a.waited),
			byKind(a.resource, b.resource))
	})
	return lanes
}

func countNew(known map[string]bool, names []string) (n int) {
	for _, name := range names {
		if !known[name] {
			n++
		}
	}
	return n
}
