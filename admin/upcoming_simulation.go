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

	"github.com/holdfast-dev/holdfast/admin/internal/words"
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
	scheduledTimes []time.Time // upcoming, as far as they were queried
	ended          bool        // there are no more scheduled times
}

// contendersOf returns the jobs that may block each other, by name. If about is not nil, it
// considers only related resources.
func contendersOf(lockers []storage.Locker, about *locking.Resource) []*contender {
	demands := make(map[locking.Resource]*demand)
	for _, locker := range lockers {
		for _, request := range locker.Requests {
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
	for _, locker := range lockers {
		one := &contender{job: locker.Job}
		for _, request := range locker.Requests {
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

// upcomingFiring is a future firing.
type upcomingFiring struct {
	at   time.Time
	next time.Time // the job's next scheduled time after it, or zero if unknown
	who  int       // index of the contender
}

// upcomingFirings returns the contenders' scheduled times in order, until f.Until. If there are
// more than maxUpcomingFirings, it moves f.Until to the end of the examined time.
func (r *reader) upcomingFirings(f *upcomingConflicts, contenders []*contender) []upcomingFiring {
	queue := make(firingQueue, 0, len(contenders))
	elsewhere := 0
	for i, contender := range contenders {
		if at, ok := r.nextFiring(contender, f.From); ok {
			queue = append(queue, upcomingFiring{at: at, who: i})
		} else {
			elsewhere++
		}
	}
	if elsewhere > 0 {
		f.Cut = append(f.Cut, fmt.Sprintf("%s that share resources have no schedule, depend on "+
			"others, or are fired by replicas with another definition",
			words.Figure(elsewhere, "job", "jobs")))
	}
	heap.Init(&queue)
	var scheduledTimes []upcomingFiring
	for len(queue) > 0 && queue[0].at.Before(f.Until) {
		if len(scheduledTimes) == maxUpcomingFirings {
			f.Until = queue[0].at
			f.Cut = append(f.Cut, fmt.Sprintf("the simulation ends after %d scheduled times, at %s",
				maxUpcomingFirings, words.UTC(f.Until)))
			break
		}
		scheduledAt := queue[0]
		at, ok := r.nextFiring(contenders[scheduledAt.who], scheduledAt.at)
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

// nextFiring returns the contender's first scheduled time after t.
func (r *reader) nextFiring(one *contender, t time.Time) (time.Time, bool) {
	if len(one.scheduledTimes) == 0 && !one.ended {
		one.scheduledTimes = r.scheduledTimes(one.job, t, firingsBatch)
		one.ended = len(one.scheduledTimes) < firingsBatch
	}
	if len(one.scheduledTimes) == 0 {
		return time.Time{}, false
	}
	at := one.scheduledTimes[0]
	one.scheduledTimes = one.scheduledTimes[1:]
	return at.UTC(), true
}

type firingQueue []upcomingFiring

func (q firingQueue) Len() int { return len(q) }
func (q firingQueue) Less(i, j int) bool {
	return cmp.Or(q[i].at.Compare(q[j].at), cmp.Compare(q[i].who, q[j].who)) < 0
}
func (q firingQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *firingQueue) Push(x any)   { *q = append(*q, x.(upcomingFiring)) }
func (q *firingQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// Durations of runs change slowly. A page has time to query those of a few hundred jobs, so they
// are cached, and with many jobs all are known only after several requests.
const (
	durationLifetime = 10 * time.Minute
	durationsBatch   = 200 // jobs
	durationsTimeout = time.Second
)

// durations caches the typical durations of jobs.
type durations struct {
	mu    sync.Mutex
	known map[string]cachedDuration
}

type cachedDuration struct {
	storage.Typical
	at time.Time // by the store's clock
}

// get returns the cached durations of a job, unless they are too old.
func (l *durations) get(job string, now time.Time) (storage.Typical, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cached, ok := l.known[job]
	return cached.Typical, ok && now.Sub(cached.at) < durationLifetime
}

// put caches the result of a query, including jobs without runs.
func (l *durations) put(names []string, found map[string]storage.Typical, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = make(map[string]cachedDuration)
	}
	for _, name := range names {
		l.known[name] = cachedDuration{found[name], now}
	}
}

// loadDurations queries the durations of the contenders, in the order of their firings, for at most
// durationsTimeout.
func (r *reader) loadDurations(ctx context.Context, f *upcomingConflicts, contenders []*contender,
	scheduledTimes []upcomingFiring) error {
	begun := time.Now()
	var open []string
	seen := make([]bool, len(contenders))
	for _, scheduledAt := range scheduledTimes {
		if !seen[scheduledAt.who] {
			seen[scheduledAt.who] = true
			if _, known := r.durations.get(contenders[scheduledAt.who].job, f.From); !known {
				open = append(open, contenders[scheduledAt.who].job)
			}
		}
	}
	for len(open) > 0 && time.Since(begun) < durationsTimeout {
		batch := open[:min(len(open), durationsBatch)]
		found, err := r.store.Typical(ctx, batch)
		if err != nil {
			return fmt.Errorf("query durations of runs: %w", err)
		}
		r.durations.put(batch, found, f.From)
		open = open[len(batch):]
	}
	never := 0
	for i, one := range contenders {
		var known bool
		if one.typical, known = r.durations.get(one.job, f.From); known && seen[i] &&
			one.typical.Runs == 0 {
			never++
		}
	}
	if len(open) > 0 {
		f.Cut = append(f.Cut,
			fmt.Sprintf("the durations of %d of %d jobs are known so far: reload "+
				"for the others", f.Jobs-len(open), f.Jobs))
	}
	if never > 0 {
		f.Cut = append(f.Cut,
			fmt.Sprintf("no run of %s has ended yet, so their durations are unknown",
				words.Figure(never, "job", "jobs")))
	}
	return nil
}

// simulation runs through the firings and counts their conflicts.
type simulation struct {
	contenders []*contender
	// for each requested resource: itself, its ancestors and its descendants
	related map[locking.Resource][]locking.Resource
	met     map[[3]string]*conflict
}

func newSimulation(contenders []*contender) *simulation {
	c := &simulation{contenders: contenders, related: map[locking.Resource][]locking.Resource{},
		met: map[[3]string]*conflict{}}
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
	who     int
	request locking.Request
	until   time.Time
}

// simulate starts each firing at its scheduled time or when its blocker has ended, and lets it run
// for takes. A firing is skipped if it would wait longer than its limit or beyond its next
// scheduled time.
func (c *simulation) simulate(scheduledTimes []upcomingFiring, takes func(*contender) time.Duration,
	count func(*conflict, time.Time, time.Duration, bool)) {
	held := make(map[locking.Resource][]expectedHold)
	busy := make([]time.Time, len(c.contenders)) // end of the current run of each job
	for _, scheduledAt := range scheduledTimes {
		one := c.contenders[scheduledAt.who]
		way, until := c.blockedBy(held, one, scheduledAt.at)
		start, skipped := scheduledAt.at, false
		if until.After(scheduledAt.at) {
			wait := until.Sub(scheduledAt.at)
			skipped = one.waitLimited && wait > one.waitLimit ||
				!scheduledAt.next.IsZero() && until.After(scheduledAt.next)
			met := c.conflict(one.job, c.contenders[way.who].job, way.request.Resource.String())
			count(met, scheduledAt.at, wait, skipped)
			start = until
		}
		if busy[scheduledAt.who].After(scheduledAt.at) || skipped {
			continue // an earlier run is active, or the firing is skipped
		}
		end := start.Add(takes(one))
		busy[scheduledAt.who] = end
		for _, request := range one.requests {
			held[request.Resource] = append(held[request.Resource],
				expectedHold{scheduledAt.who, request, end})
		}
	}
}

func (c *simulation) conflict(job, holder, resource string) *conflict {
	key := [3]string{job, holder, resource}
	if c.met[key] == nil {
		c.met[key] = &conflict{Job: job, Holder: holder, Resource: resource}
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
				if c.contenders[h.who] == one {
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
func (c *simulation) sorted(about *locking.Resource) []conflict {
	all := []conflict{}
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
