package locks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// advisoryTimeout is shorter than the time of a request, because the page works without memcached.
const advisoryTimeout = time.Second

// Advisory reads advisory locks. *locking.Locker implements it.
type Advisory interface {
	// Inspect returns the holders of those resources that are locked exclusively, or an error if
	// memcached did not answer.
	Inspect(ctx context.Context, resources []locking.Resource) (map[locking.Resource]locking.Holder,
		error)
}

// Sources are what a Reader queries beside the store. Each may be nil.
type Sources struct {
	Advisory Advisory
	Restarts storage.Restarts
	// scheduledTimes returns at most n scheduled times after from of a job of this replica's cron
	// table.
	ScheduledTimes func(job string, from time.Time, n int) []time.Time
	// Next returns the next firing after from of each job of this replica's cron table, soonest
	// first, at most n of them.
	Next func(from time.Time, n int) []NextFiring
	// LongestWait returns how long a firing of a job waits for a lock, but at most limit, and false
	// if that is not known.
	LongestWait func(job string, limit time.Duration) (time.Duration, bool)
	// Pauses returns the active pauses.
	Pauses func(ctx context.Context) ([]storage.Pause, error)
}

// Reader queries locks, waits and their history. It is safe for concurrent use.
type Reader struct {
	records.Reader
	Sources
	known     *records.Cached[*namedResources] // resources that jobs name
	requests  *records.Cached[*requestIndex]
	conflicts *records.Cached[UpcomingConflicts]
	agendas   map[string]*records.Cached[Agenda] // by the name of the span
	sums      *records.Keyed[charts.WindowQuery, []storage.WaitSummary]
	durations durations
}

// NextFiring is the next firing of a job and what it locks.
type NextFiring struct {
	Job         string
	ScheduledAt time.Time
	Resources   []locking.Request
}

// NewReader returns a reader of a store and of the sources.
func NewReader(runs records.Reader, from Sources) *Reader {
	store := runs.Store
	known := func(ctx context.Context, _ time.Time) (*namedResources, error) {
		list, err := store.Resources(ctx)
		return newNamedResources(list), err
	}
	requests := func(ctx context.Context, _ time.Time) (*requestIndex, error) {
		list, err := store.JobRequests(ctx)
		return newRequestIndex(list), err
	}
	r := &Reader{Reader: runs, Sources: from,
		known:    records.NewCached(records.CacheLifetime, known),
		requests: records.NewQuietCached(requests)}
	r.sums = records.NewKeyed(records.CacheLifetime,
		func(ctx context.Context, q charts.WindowQuery,
			now time.Time) ([]storage.WaitSummary, error) {
			w := q.At(now)
			return store.WaitSummaries(ctx, w.From, w.Until)
		})
	r.conflicts = records.NewQuietCached(
		func(ctx context.Context, now time.Time) (UpcomingConflicts, error) {
			return r.findConflicts(ctx, now, nil)
		})
	r.agendas = make(map[string]*records.Cached[Agenda])
	for _, span := range AgendaSpans() {
		r.agendas[span.Name] = records.NewQuietCached(
			func(ctx context.Context, now time.Time) (Agenda, error) {
				a, err := r.findAgenda(ctx, now, span.Length)
				// only FindExpectedConflicts reads these fields, and only of the default span
				if span.Name != DefaultAgendaSpan {
					a.waits, a.waitTimes = nil, nil
				}
				return a, err
			})
	}
	return r
}

// Resources returns the resources that jobs name, at most some seconds old.
func (r *Reader) Resources(ctx context.Context, now time.Time) ([]locking.Resource, error) {
	named, err := namedOf(ctx, r, now)
	if err != nil {
		return nil, err
	}
	return named.list, nil
}

// namedOf is Reader.Resources with what is derived from them.
func namedOf(ctx context.Context, r *Reader, now time.Time) (*namedResources, error) {
	named, err := r.known.Get(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("resources: %w", err)
	}
	return named, nil
}

// waitSums returns the waits within a window by job, holder and resource, at most some seconds old.
// It is cached, because it reads up to storage.MaxTallied waits. The caller must not change them.
func (r *Reader) waitSums(ctx context.Context, q charts.WindowQuery,
	now time.Time) ([]storage.WaitSummary, error) {
	sums, err := r.sums.Get(ctx, q, now)
	if err != nil {
		return nil, fmt.Errorf("query waits: %w", err)
	}
	return sums, nil
}

// Locks returns all locks by resource.
func (r *Reader) Locks(ctx context.Context) (Set, error) {
	set, err := r.Grants(ctx)
	if err != nil {
		return Set{}, err
	}
	set.Advisory = r.compare(ctx, set.Locks)
	if !slices.ContainsFunc(set.Locks, Lock.doubtful) {
		return set, nil
	}
	// Memcached was queried after the store, so a run that ended in between looks as if it had lost
	// its advisory lock. Only locks that the store still has count.
	again, err := r.Grants(ctx)
	if err != nil {
		return Set{}, err
	}
	current := make(map[lockKey]bool)
	for _, lock := range again.Locks {
		current[lock.key()] = true
	}
	set.Locks = slices.DeleteFunc(set.Locks, func(l Lock) bool {
		return l.doubtful() && !current[l.key()]
	})
	return set, nil
}

// Grants returns all locks by resource, without the state of their advisory locks.
func (r *Reader) Grants(ctx context.Context) (Set, error) {
	views, err := r.Store.Locks(ctx)
	if err != nil {
		return Set{}, fmt.Errorf("locks: %w", err)
	}
	set := Set{Locks: make([]Lock, 0, len(views))}
	for _, v := range views {
		lock := Lock{
			Resource: v.Resource.String(), Mode: v.Mode, Slots: v.Slots, Holder: v.Holder,
			Token: v.Token,
			Since: v.Since.UTC(), ExpiresAt: v.Expires.UTC(), Advisory: AdvisoryOff,
			resource: v.Resource,
		}
		if v.Resource.Kind() == locking.KindJob {
			set.Own = append(set.Own, lock)
		} else {
			set.Locks = append(set.Locks, lock)
		}
	}
	slices.SortFunc(set.Locks, func(a, b Lock) int {
		return cmp.Or(cmp.Compare(a.resource.Kind(), b.resource.Kind()),
			cmp.Compare(a.resource.Path(), b.resource.Path()), cmp.Compare(a.Token, b.Token))
	})
	return set, nil
}

// inspectable returns the resources of the exclusive locks: memcached may know their holders. The
// locks are sorted by resource.
func (r *Reader) inspectable(locks []Lock) []locking.Resource {
	if r.Advisory == nil {
		return nil
	}
	var resources []locking.Resource
	for _, lock := range locks {
		if lock.Mode == locking.Exclusive {
			resources = append(resources, lock.resource)
		}
	}
	return slices.Compact(resources)
}

// compare sets the advisory state of each lock. Its error is no reason to withhold the locks.
func (r *Reader) compare(ctx context.Context, locks []Lock) error {
	asked := r.inspectable(locks)
	if len(asked) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, advisoryTimeout)
	defer cancel()
	holders, err := r.Advisory.Inspect(ctx, asked)
	for i := range locks {
		if locks[i].Mode == locking.Exclusive {
			locks[i].judge(holders, err)
		}
	}
	return err
}

// LockedAt returns since when memcached names the run as holder, or zero if it does not or can't be
// queried.
func (r *Reader) LockedAt(ctx context.Context, run uuid.UUID, locks []Lock) (first time.Time) {
	asked := r.inspectable(locks)
	if len(asked) == 0 {
		return first
	}
	ctx, cancel := context.WithTimeout(ctx, advisoryTimeout)
	defer cancel()
	holders, err := r.Advisory.Inspect(ctx, asked)
	if err != nil {
		return first
	}
	for _, holder := range holders {
		if holder.Run == run.String() && (first.IsZero() || holder.Since.Before(first)) {
			first = holder.Since
		}
	}
	return first
}
