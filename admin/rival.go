package admin

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// rival is a job that wants what another wants, too.
type rival struct {
	job      string
	requests []locking.Request // those that may meet another job's
	typical  jobs.Typical
	patience time.Duration // how long it waits
	patient  bool          // that is known, else it waits until its next due
	dues     []time.Time   // ahead, as far as they were asked for
	ended    bool          // there are no more
}

// rivalsOf returns the jobs that may be in each other's way, by name; only those
// that have to do with about, unless that is nil.
func rivalsOf(lockers []jobs.Locker, about *locking.Resource) []*rival {
	crowds := make(map[locking.Resource]*crowding)
	for _, locker := range lockers {
		for _, request := range locker.Requests {
			own := crowds[request.Resource]
			if own == nil {
				own = &crowding{}
				crowds[request.Resource] = own
			}
			own.count(request)
			for _, above := range request.Resource.Ancestors() {
				if crowds[above] == nil {
					crowds[above] = &crowding{}
				}
				crowds[above].beneath.count(request)
			}
		}
	}
	var rivals []*rival
	for _, locker := range lockers {
		one := &rival{job: locker.Job}
		for _, request := range locker.Requests {
			if (about == nil || request.Resource.Related(*about)) && contended(crowds, request) {
				one.requests = append(one.requests, request)
			}
		}
		if len(one.requests) > 0 {
			rivals = append(rivals, one)
		}
	}
	slices.SortFunc(rivals, func(a, b *rival) int { return strings.Compare(a.job, b.job) })
	return rivals
}

// crowding counts who wants a resource, and what lies beneath.
type crowding struct {
	askers
	beneath askers
}

type askers struct{ exclusive, shared, slotted int }

func (a *askers) count(r locking.Request) {
	switch r.Mode {
	case locking.Exclusive:
		a.exclusive++
	case locking.Shared:
		a.shared++
	default:
		a.slotted++
	}
}

// against returns how many of the askers a request may not hold beside, itself
// included where it is one of them. Slots of one name are judged by their number.
func (a askers) against(r locking.Request) int {
	if r.Mode == locking.Shared {
		return a.exclusive + a.slotted
	}
	return a.exclusive + a.shared + a.slotted
}

func contended(crowds map[locking.Resource]*crowding, r locking.Request) bool {
	own := crowds[r.Resource]
	switch {
	case r.Mode == locking.Slotted && (own.slotted > r.Slots || own.exclusive+own.shared > 0),
		r.Mode == locking.Exclusive && own.askers.against(r) > 1, r.Mode == locking.Shared && own.askers.against(r) > 0,
		own.beneath.against(r) > 0:
		return true
	}
	return slices.ContainsFunc(r.Resource.Ancestors(), func(above locking.Resource) bool { return crowds[above].askers.against(r) > 0 })
}

// aheadDue is a firing to come.
type aheadDue struct {
	at   time.Time
	next time.Time // the job's due behind it; zero where it is not known
	who  int       // among the rivals
}

// duesAhead returns the dues of the rivals in their order, until the forecast's
// end, or until there are as many as are looked at: then the forecast ends there.
func (r *reader) duesAhead(f *forecast, rivals []*rival) []aheadDue {
	queue := make(dueQueue, 0, len(rivals))
	elsewhere := 0
	for i, rival := range rivals {
		if at, ok := r.nextAhead(rival, f.From); ok {
			queue = append(queue, aheadDue{at: at, who: i})
		} else {
			elsewhere++
		}
	}
	if elsewhere > 0 {
		f.Cut = append(f.Cut, fmt.Sprintf("%s that share something are only triggered, follow others, or are fired by replicas with another definition", figure(elsewhere, "job", "jobs")))
	}
	heap.Init(&queue)
	var dues []aheadDue
	for len(queue) > 0 && queue[0].at.Before(f.Until) {
		if len(dues) == mostForecast {
			f.Until = queue[0].at
			f.Cut = append(f.Cut, fmt.Sprintf("%d dues come until %s, and no more are looked at", mostForecast, utcWords(f.Until)))
			break
		}
		due := queue[0]
		at, ok := r.nextAhead(rivals[due.who], due.at)
		if ok {
			due.next = at
			queue[0].at = at
			heap.Fix(&queue, 0)
		} else {
			heap.Pop(&queue)
		}
		dues = append(dues, due)
	}
	return dues
}

// nextAhead returns the rival's first due after t.
func (r *reader) nextAhead(one *rival, t time.Time) (time.Time, bool) {
	if len(one.dues) == 0 && !one.ended {
		one.dues = r.dues(one.job, t, duesAtOnce)
		one.ended = len(one.dues) < duesAtOnce
	}
	if len(one.dues) == 0 {
		return time.Time{}, false
	}
	at := one.dues[0]
	one.dues = one.dues[1:]
	return at.UTC(), true
}

type dueQueue []aheadDue

func (q dueQueue) Len() int { return len(q) }
func (q dueQueue) Less(i, j int) bool {
	return cmp.Or(q[i].at.Compare(q[j].at), cmp.Compare(q[i].who, q[j].who)) < 0
}
func (q dueQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *dueQueue) Push(x any)   { *q = append(*q, x.(aheadDue)) }
func (q *dueQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// collisions plays the dues through, and adds up who meets whom.
type collisions struct {
	rivals  []*rival
	related map[locking.Resource][]locking.Resource // of what rivals want: itself, what is above and what is beneath
	met     map[[3]string]*collision
}

func newCollisions(rivals []*rival) *collisions {
	c := &collisions{rivals: rivals, related: map[locking.Resource][]locking.Resource{}, met: map[[3]string]*collision{}}
	for _, r := range rivals {
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

// hold is a run that is expected to have a resource until then.
type hold struct {
	who     int
	request locking.Request
	until   time.Time
}

// play has each firing run as long as takes says, from its due on, or from when
// whoever is in its way is done: unless that is longer than it waits, or later
// than its next due.
func (c *collisions) play(dues []aheadDue, takes func(*rival) time.Duration, count func(*collision, time.Time, time.Duration, bool)) {
	held := make(map[locking.Resource][]hold)
	busy := make([]time.Time, len(c.rivals)) // until when a run of each job goes on
	for _, due := range dues {
		one := c.rivals[due.who]
		way, until := c.inTheWay(held, one, due.at)
		start, skipped := due.at, false
		if until.After(due.at) {
			wait := until.Sub(due.at)
			skipped = one.patient && wait > one.patience || !due.next.IsZero() && until.After(due.next)
			met := c.collision(one.job, c.rivals[way.who].job, way.request.Resource.String())
			count(met, due.at, wait, skipped)
			start = until
		}
		if busy[due.who].After(due.at) || skipped {
			continue // its own earlier run goes on, or it gives up
		}
		end := start.Add(takes(one))
		busy[due.who] = end
		for _, request := range one.requests {
			held[request.Resource] = append(held[request.Resource], hold{due.who, request, end})
		}
	}
}

func (c *collisions) collision(job, holder, resource string) *collision {
	key := [3]string{job, holder, resource}
	if c.met[key] == nil {
		c.met[key] = &collision{Job: job, Holder: holder, Resource: resource}
	}
	return c.met[key]
}

// inTheWay returns the last whom a firing must wait for, and until when.
func (c *collisions) inTheWay(held map[locking.Resource][]hold, one *rival, at time.Time) (way hold, until time.Time) {
	for _, request := range one.requests {
		var slots []hold
		for _, near := range c.related[request.Resource] {
			still := slices.DeleteFunc(held[near], func(h hold) bool { return !h.until.After(at) })
			held[near] = still
			for _, h := range still {
				if c.rivals[h.who] == one {
					continue // that is its own overlap
				}
				if request.Mode == locking.Slotted && h.request.Mode == locking.Slotted && h.request.Resource == request.Resource {
					slots = append(slots, h)
				} else if locking.Conflict(request, h.request) && h.until.After(until) {
					way, until = h, h.until
				}
			}
		}
		if free := len(slots) - request.Slots; request.Mode == locking.Slotted && free >= 0 {
			slices.SortFunc(slots, func(a, b hold) int { return a.until.Compare(b.until) })
			if h := slots[free]; h.until.After(until) {
				way, until = h, h.until
			}
		}
	}
	return way, until
}

// sorted returns the collisions; only those about a resource, unless that is nil.
func (c *collisions) sorted(about *locking.Resource) []collision {
	all := []collision{}
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
