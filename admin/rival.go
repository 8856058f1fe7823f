package admin

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// rival is a job that wants what another wants, too.
type rival struct {
	job            string
	requests       []locking.Request // those that may meet another job's
	typical        jobs.Typical
	patience       time.Duration // how long it waits
	patient        bool          // that is known, else it waits until its next scheduled time
	scheduledTimes []time.Time   // ahead, as far as they were asked for
	ended          bool          // there are no more
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
		r.Mode == locking.Exclusive && own.askers.against(r) > 1,
		r.Mode == locking.Shared && own.askers.against(r) > 0,
		own.beneath.against(r) > 0:
		return true
	}
	return slices.ContainsFunc(r.Resource.Ancestors(), func(above locking.Resource) bool {
		return crowds[above].askers.against(r) > 0
	})
}

// aheadFiring is a firing to come.
type aheadFiring struct {
	at   time.Time
	next time.Time // the job's due behind it; zero where it is not known
	who  int       // among the rivals
}

// firingsAhead returns the scheduled times of the rivals in their order, until the forecast's
// end, or until there are as many as are looked at: then the forecast ends there.
func (r *reader) firingsAhead(f *forecast, rivals []*rival) []aheadFiring {
	queue := make(firingQueue, 0, len(rivals))
	elsewhere := 0
	for i, rival := range rivals {
		if at, ok := r.nextAhead(rival, f.From); ok {
			queue = append(queue, aheadFiring{at: at, who: i})
		} else {
			elsewhere++
		}
	}
	if elsewhere > 0 {
		f.Cut = append(f.Cut, fmt.Sprintf("%s that share something are only triggered, follow "+
			"others, or are fired by replicas with another definition",
			figure(elsewhere, "job", "jobs")))
	}
	heap.Init(&queue)
	var scheduledTimes []aheadFiring
	for len(queue) > 0 && queue[0].at.Before(f.Until) {
		if len(scheduledTimes) == mostForecast {
			f.Until = queue[0].at
			f.Cut = append(f.Cut, fmt.Sprintf("%d scheduled times come until %s, and no more are "+
				"looked at", mostForecast, utcWords(f.Until)))
			break
		}
		scheduledAt := queue[0]
		at, ok := r.nextAhead(rivals[scheduledAt.who], scheduledAt.at)
		if ok {
			scheduledAt.next = at
			queue[0].at = at
			heap.Fix(&queue, 0)
		} else {
			heap.Pop(&queue)
		}
		scheduledTimes = append(scheduledTimes, scheduledAt)
	}
	return scheduledTimes
}

// nextAhead returns the rival's first scheduled time after t.
func (r *reader) nextAhead(one *rival, t time.Time) (time.Time, bool) {
	if len(one.scheduledTimes) == 0 && !one.ended {
		one.scheduledTimes = r.scheduledTimes(one.job, t, firingsAtOnce)
		one.ended = len(one.scheduledTimes) < firingsAtOnce
	}
	if len(one.scheduledTimes) == 0 {
		return time.Time{}, false
	}
	at := one.scheduledTimes[0]
	one.scheduledTimes = one.scheduledTimes[1:]
	return at.UTC(), true
}

type firingQueue []aheadFiring

func (q firingQueue) Len() int { return len(q) }
func (q firingQueue) Less(i, j int) bool {
	return cmp.Or(q[i].at.Compare(q[j].at), cmp.Compare(q[i].who, q[j].who)) < 0
}
func (q firingQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *firingQueue) Push(x any)   { *q = append(*q, x.(aheadFiring)) }
func (q *firingQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// How long runs take changes slowly, and is looked up for some hundred jobs in
// the time that a page has: so it is kept, and of many jobs it is known only
// after some questions.
const (
	lengthKept    = 10 * time.Minute
	lengthsAtOnce = 200 // jobs
	lengthsTime   = time.Second
)

// lengths is how long the runs of jobs take, as far as it was looked up.
type lengths struct {
	mu    sync.Mutex
	known map[string]keptLength
}

type keptLength struct {
	jobs.Typical
	at time.Time // by the store's clock
}

// get returns what is known of a job and not too old.
func (l *lengths) get(job string, now time.Time) (jobs.Typical, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept, ok := l.known[job]
	return kept.Typical, ok && now.Sub(kept.at) < lengthKept
}

// keep remembers what was looked up of some jobs, also that there is nothing.
func (l *lengths) keep(names []string, found map[string]jobs.Typical, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = make(map[string]keptLength)
	}
	for _, name := range names {
		l.known[name] = keptLength{found[name], now}
	}
}

// measure looks up how long the rivals' runs take, those that are due first
// before others, for as long as a page may take.
func (r *reader) measure(ctx context.Context, f *forecast, rivals []*rival,
	scheduledTimes []aheadFiring) error {
	begun := time.Now()
	var open []string
	seen := make([]bool, len(rivals))
	for _, scheduledAt := range scheduledTimes {
		if !seen[scheduledAt.who] {
			seen[scheduledAt.who] = true
			if _, known := r.lengths.get(rivals[scheduledAt.who].job, f.From); !known {
				open = append(open, rivals[scheduledAt.who].job)
			}
		}
	}
	for len(open) > 0 && time.Since(begun) < lengthsTime {
		batch := open[:min(len(open), lengthsAtOnce)]
		found, err := r.store.Typical(ctx, batch)
		if err != nil {
			return fmt.Errorf("how long runs take: %w", err)
		}
		r.lengths.keep(batch, found, f.From)
		open = open[len(batch):]
	}
	never := 0
	for i, one := range rivals {
		var known bool
		if one.typical, known = r.lengths.get(one.job, f.From); known && seen[i] &&
			one.typical.Runs == 0 {
			never++
		}
	}
	if len(open) > 0 {
		f.Cut = append(f.Cut, fmt.Sprintf("how long runs take was looked up of %d of %d jobs so "+
			"far: ask again in a moment for the others", f.Jobs-len(open), f.Jobs))
	}
	if never > 0 {
		f.Cut = append(f.Cut, fmt.Sprintf("no run of %s has ended yet, so that nobody knows how "+
			"long they take", figure(never, "job", "jobs")))
	}
	return nil
}

// collisions plays the scheduled times through, and adds up who meets whom.
type collisions struct {
	rivals []*rival
	// of what rivals want: itself, what is above and what is beneath
	related map[locking.Resource][]locking.Resource
	met     map[[3]string]*collision
}

func newCollisions(rivals []*rival) *collisions {
	c := &collisions{rivals: rivals, related: map[locking.Resource][]locking.Resource{},
		met: map[[3]string]*collision{}}
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

// play has each firing run as long as takes says, from its scheduled time on, or from when
// whoever is in its way is done: unless that is longer than it waits, or later
// than its next scheduled time.
func (c *collisions) play(scheduledTimes []aheadFiring, takes func(*rival) time.Duration,
	count func(*collision, time.Time, time.Duration, bool)) {
	held := make(map[locking.Resource][]hold)
	busy := make([]time.Time, len(c.rivals)) // until when a run of each job goes on
	for _, scheduledAt := range scheduledTimes {
		one := c.rivals[scheduledAt.who]
		way, until := c.inTheWay(held, one, scheduledAt.at)
		start, skipped := scheduledAt.at, false
		if until.After(scheduledAt.at) {
			wait := until.Sub(scheduledAt.at)
			skipped = one.patient && wait > one.patience ||
				!scheduledAt.next.IsZero() && until.After(scheduledAt.next)
			met := c.collision(one.job, c.rivals[way.who].job, way.request.Resource.String())
			count(met, scheduledAt.at, wait, skipped)
			start = until
		}
		if busy[scheduledAt.who].After(scheduledAt.at) || skipped {
			continue // its own earlier run goes on, or it gives up
		}
		end := start.Add(takes(one))
		busy[scheduledAt.who] = end
		for _, request := range one.requests {
			held[request.Resource] = append(held[request.Resource],
				hold{scheduledAt.who, request, end})
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
func (c *collisions) inTheWay(held map[locking.Resource][]hold, one *rival,
	at time.Time) (way hold, until time.Time) {
	for _, request := range one.requests {
		var slots []hold
		for _, near := range c.related[request.Resource] {
			still := slices.DeleteFunc(held[near], func(h hold) bool { return !h.until.After(at) })
			held[near] = still
			for _, h := range still {
				if c.rivals[h.who] == one {
					continue // that is its own overlap
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
