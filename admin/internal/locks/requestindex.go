package locks

import (
	"slices"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// requestIndex is what all jobs lock. It is cached, and its users only read it.
type requestIndex struct {
	requests []storage.JobRequests
	own      map[locking.Resource][]string // the jobs that name a resource
	// lanes are those of the resources that jobs name, sorted by resource, without locks and waits.
	lanes  []Lane
	places map[locking.Resource]int // in lanes
}

func newRequestIndex(requests []storage.JobRequests) *requestIndex {
	x := &requestIndex{requests: requests, own: make(map[locking.Resource][]string)}
	for _, r := range requests {
		for _, request := range r.Requests {
			x.own[request.Resource] = append(x.own[request.Resource], r.Job)
		}
	}
	for resource := range x.own {
		x.lanes = append(x.lanes, x.newLane(resource))
	}
	slices.SortFunc(x.lanes, func(a, b Lane) int { return byKind(a.resource, b.resource) })
	x.places = make(map[locking.Resource]int, len(x.lanes))
	for i := range x.lanes {
		x.places[x.lanes[i].resource] = i
	}
	return x
}

// newLane returns a lane with the jobs that lock the resource or an ancestor.
func (x *requestIndex) newLane(resource locking.Resource) Lane {
	names := slices.Clone(x.own[resource])
	for _, above := range resource.Ancestors() {
		names = append(names, x.own[above]...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return Lane{Resource: resource.String(), Jobs: len(names), Runs: []storage.RunInterval{},
		resource: resource, jobs: names}
}
