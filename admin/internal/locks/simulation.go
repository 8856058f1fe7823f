package locks

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

// simulation runs through the firings and counts their conflicts.
type simulation struct {
	contenders []*contender
	// for each requested resource: itself, its ancestors and its descendants
	related map[locking.Resource][]locking.Resource
	met     map[[3]string]*Conflict
	now     []expectedHold // locks that are held at the beginning
}

// newSimulation returns a simulation of the contenders. It begins with the given locks.
func newSimulation(contenders []*contender, now ...expectedHold) *simulation {
	c := &simulation{contenders: contenders, related: map[locking.Resource][]locking.Resource{},
		met: map[[3]string]*Conflict{}, now: now}
	for _, hold := range now {
		c.related[hold.request.Resource] = nil
	}
	for _, r := range contenders {
		for _, request := range r.requests {
			c.related[request.Resource] = nil
		}
	}
	for resource := range c.related {
		c.related[resource] = append(c.related[resource], resource)
		for _, above := range resource.Ancestors() {
			if _, wanted := c.related[above]; wanted {
				c.related[resource] = append(c.related[resource], above)
				c.related[above] = append(c.related[above], resource)
			}
		}
	}
	return c
}

// expectedHold is a simulated lock and its end.
type expectedHold struct {
	job     string // "" for a program that uses locks without jobs
	request locking.Request
	until   time.Time
}

// simulate starts each firing at its scheduled time or when its blocker has ended, and lets it run
// for takes. A firing is skipped if it would wait longer than its limit or beyond its next
// scheduled time. Paused jobs start no runs.
func (c *simulation) simulate(scheduledTimes []upcomingFiring, takes func(*contender) time.Duration,
	count func(*Conflict, time.Time, time.Duration, bool)) {
	held := make(map[locking.Resource][]expectedHold)
	for _, hold := range c.now {
		held[hold.request.Resource] = append(held[hold.request.Resource], hold)
	}
	busy := make([]time.Time, len(c.contenders)) // end of the current run of each job
	for _, scheduledAt := range scheduledTimes {
		one := c.contenders[scheduledAt.contender]
		if one.pause != nil {
			continue
		}
		way, until := c.blockedBy(held, one, scheduledAt.at)
		start, skipped := scheduledAt.at, false
		if until.After(scheduledAt.at) {
			wait := until.Sub(scheduledAt.at)
			skipped = one.waitLimited && wait > one.waitLimit ||
				!scheduledAt.next.IsZero() && until.After(scheduledAt.next)
			met := c.conflict(one.job, way.job, way.request.Resource.String())
			count(met, scheduledAt.at, wait, skipped)
			start = until
		}
		if busy[scheduledAt.contender].After(scheduledAt.at) || skipped {
			continue // an earlier run is active, or the firing is skipped
		}
		end := start.Add(takes(one))
		busy[scheduledAt.contender] = end
		for _, request := range one.requests {
			held[request.Resource] = append(held[request.Resource],
				expectedHold{one.job, request, end})
		}
	}
}

func (c *simulation) conflict(job, holder, resource string) *Conflict {
	key := [3]string{job, holder, resource}
	if c.met[key] == nil {
		c.met[key] = &Conflict{Job: job, Holder: holder, Resource: resource}
	}
	return c.met[key]
}

// blockedBy returns the last lock that blocks a firing, and its end.
func (c *simulation) blockedBy(held map[locking.Resource][]expectedHold, one *contender,
	at time.Time) (way expectedHold, until time.Time) {
	for _, request := range one.requests {
		var slots []expectedHold
		for _, near := range c.related[request.Resource] {
			still := slices.DeleteFunc(held[near], func(h expectedHold) bool {
				return !h.until.After(at)
			})
			held[near] = still
			for _, h := range still {
				if h.job == one.job {
					continue // an overlap of the job with itself is no conflict
				}
				if request.Mode == locking.Slotted && h.request.Mode == locking.Slotted &&
					h.request.Resource == request.Resource {
					slots = append(slots, h)
				} else if locking.Conflict(request, h.request) && h.until.After(until) {
					way, until = h, h.until
				}
			}
		}
		if free := len(slots) - request.Slots; request.Mode == locking.Slotted && free >= 0 {
			slices.SortFunc(slots, func(a, b expectedHold) int { return a.until.Compare(b.until) })
			if h := slots[free]; h.until.After(until) {
				way, until = h, h.until
			}
		}
	}
	return way, until
}

// sorted returns the conflicts. If about is not nil, it returns only those on related resources.
func (c *simulation) sorted(about *locking.Resource) []Conflict {
	all := []Conflict{}
	for _, met := range c.met {
		if about != nil {
			resource, err := locking.ParseDisplay(met.Resource)
			if err != nil || !resource.Related(*about) {
				continue
			}
		}
		all = append(all, *met)
	}
	slices.SortFunc(all, byLikelihood)
	return all
}
