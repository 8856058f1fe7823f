package locks

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// contender is a job that may conflict with another job.
type contender struct {
	job       string
	requests  []locking.Request // requests that may conflict
	typical   storage.Typical
	waitLimit time.Duration // longest wait of a firing
	// waitLimit is known; otherwise a firing waits until its next scheduled time
	waitLimited    bool
	scheduledTimes []time.Time    // upcoming, as far as they were queried
	ended          bool           // there are no more scheduled times
	pause          *storage.Pause // nil unless the job is paused
}

// contendersOf returns the jobs that may block each other, by name. If about is not nil, it
// considers only related resources.
func contendersOf(requests []storage.JobRequests, about *locking.Resource) []*contender {
	demands := make(map[locking.Resource]*demand)
	for _, r := range requests {
		for _, request := range r.Requests {
			own := demands[request.Resource]
			if own == nil {
				own = &demand{}
				demands[request.Resource] = own
			}
			own.count(request)
			for _, above := range request.Resource.Ancestors() {
				if demands[above] == nil {
					demands[above] = &demand{}
				}
				demands[above].beneath.count(request)
			}
		}
	}
	var contenders []*contender
	for _, r := range requests {
		one := &contender{job: r.Job}
		for _, request := range r.Requests {
			if (about == nil || request.Resource.Related(*about)) && contended(demands, request) {
				one.requests = append(one.requests, request)
			}
		}
		if len(one.requests) > 0 {
			contenders = append(contenders, one)
		}
	}
	slices.SortFunc(contenders, func(a, b *contender) int { return strings.Compare(a.job, b.job) })
	return contenders
}

// demand counts the requests for a resource and for its descendants.
type demand struct {
	requestCounts
	beneath requestCounts
}

type requestCounts struct{ exclusive, shared, slotted int }

func (a *requestCounts) count(r locking.Request) {
	switch r.Mode {
	case locking.Exclusive:
		a.exclusive++
	case locking.Shared:
		a.shared++
	default:
		a.slotted++
	}
}

// conflicting returns the number of counted requests that exclude r, including r itself if it was
// counted. Requests for slots of the same name are compared by number.
func (a requestCounts) conflicting(r locking.Request) int {
	if r.Mode == locking.Shared {
		return a.exclusive + a.slotted
	}
	return a.exclusive + a.shared + a.slotted
}

func contended(demands map[locking.Resource]*demand, r locking.Request) bool {
	own := demands[r.Resource]
	switch {
	case r.Mode == locking.Slotted && (own.slotted > r.Slots || own.exclusive+own.shared > 0),
		r.Mode == locking.Exclusive && own.requestCounts.conflicting(r) > 1,
		r.Mode == locking.Shared && own.requestCounts.conflicting(r) > 0,
		own.beneath.conflicting(r) > 0:
		return true
	}
	return slices.ContainsFunc(r.Resource.Ancestors(), func(above locking.Resource) bool {
		return demands[above].requestCounts.conflicting(r) > 0
	})
}
