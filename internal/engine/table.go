package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/parallel"
	"github.com/holdfast-dev/holdfast/internal/redact"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// entry is a job of the cron table: its handler is bound, and its requests are in normal form.
type entry struct {
	jobs.Job
	handle        jobs.HandlerFunc
	requests      []locking.Request
	hash          string // of the definition, and of the spec's version
	activeVersion activeVersion
	mask          *redact.Mask  // of the secrets in the params
	spec          *storage.Spec // of a job that was added at run time, otherwise nil
	gone          atomic.Bool   // removed from the table, or replaced by another entry
	quickness     quickness     // of its handler
	planned       bool          // in the timetable; belongs to the dispatcher's goroutine
	// the firing that began last and whose first try has not ended; see firstTurn
	trying atomic.Pointer[firing]
}

// cronTable holds the jobs that a replica fires: those of its configuration, and those that were
// added at run time. Only the active version of an entry changes; a changed job gets a new entry.
// It may be used concurrently.
type cronTable struct {
	mu      sync.RWMutex
	entries map[string]*entry
	sorted  []*entry // by name; nil if it must be built
	after   []*entry // those of sorted that start after other jobs
	known   int      // how many entries at the begin of sorted surely have a known active version
	config  string   // hash of the configuration's jobs; "" if it must be computed
	soonest upcomingStarts

	firstCalls meanTime // of the handlers of all jobs, one of each job

	// Changes of which the store has not been notified.
	withdrawn map[string]*entry // definitions to withdraw from the session, by job
	revised   bool              // the configuration's jobs have changed
}

// newCronTable binds every job, and returns all mistakes at once. The registry is without the
// middleware, which is called for one job after the other: it belongs to the program.
func newCronTable(registry *jobs.Registry, middleware []jobs.Middleware,
	jobs []jobs.Job) (*cronTable, error) {
	table := &cronTable{entries: make(map[string]*entry, len(jobs))}
	bound, problems := make([]*entry, len(jobs)), make([]error, len(jobs))
	parallel.For(len(jobs), func(i int) { bound[i], problems[i] = newEntry(registry, &jobs[i]) })
	for i, e := range bound {
		switch name := jobs[i].Name; {
		case problems[i] != nil:
			problems[i] = fmt.Errorf("job %q: %w", name, problems[i])
		case table.entries[name] != nil:
			problems[i] = fmt.Errorf("job %q: defined twice", name)
		default:
			for _, wrap := range slices.Backward(middleware) {
				e.handle = wrap(e.handle)
			}
			table.insert(e)
		}
	}
	return table, errors.Join(append(problems, CheckAfter(jobs))...)
}

// get returns the job's entry, or nil.
func (t *cronTable) get(name string) *entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.entries[name]
}

// jobRemoved is the detail of a run whose job was removed before it could start.
const jobRemoved = "the job was removed from the configuration"

// removed reports whether the entry's job was removed from the configuration.
func (t *cronTable) removed(e *entry) bool { return e.spec == nil && t.get(e.Name) == nil }

// put adds an entry or replaces the one of its job. This replica does not fire the job until the
// definition is registered.
func (t *cronTable) put(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replace(e)
}

// replace is put for callers with the table's lock. A replaced definition is withdrawn, because the
// new one may have a lower version.
func (t *cronTable) replace(e *entry) {
	if before := t.entries[e.Name]; before != nil && before.hash != e.hash {
		t.withdraw(before)
	}
	t.discard(e.Name)
	t.insert(e)
}

// insert adds an entry. The caller has the table's lock.
func (t *cronTable) insert(e *entry) {
	e.quickness.first = &t.firstCalls
	t.entries[e.Name] = e
}

// remove removes a job. Its active runs go on.
func (t *cronTable) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.discard(name)
}

// withdrawJob removes a job that this replica cannot fire any more, and withdraws its definition.
// Otherwise this replica would count as one that has the job.
func (t *cronTable) withdrawJob(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.entries[name]; before != nil {
		t.withdraw(before)
	}
	t.discard(name)
}

// discard removes the entry of a job, if there is one. The caller has the table's lock.
func (t *cronTable) discard(name string) {
	if before := t.entries[name]; before != nil {
		before.gone.Store(true)
		delete(t.entries, name)
	}
	t.sorted = nil
}

// all returns the entries, by name. The caller must not change the list. It is called several times
// a second.
func (t *cronTable) all() []*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName()
}

// byName is all for callers with the table's lock.
func (t *cronTable) byName() []*entry {
	if t.sorted == nil {
		t.sorted = slices.SortedFunc(maps.Values(t.entries), func(a, b *entry) int {
			return strings.Compare(a.Name, b.Name)
		})
		t.after = slices.DeleteFunc(slices.Clone(t.sorted), func(e *entry) bool {
			return len(e.Schedule.After()) == 0
		})
		t.known = 0
	}
	return t.sorted
}

func (t *cronTable) len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.entries)
}

func newEntry(registry *jobs.Registry, job *jobs.Job) (*entry, error) {
	handle, err := registry.Bind(job.Handler, job.Params)
	if err != nil {
		return nil, redact.New(job.Secrets).Error(err)
	}
	requests, err := job.Check()
	if err != nil {
		return nil, err
	}
	definition, err := storage.Define(*job, requests)
	e := &entry{Job: *job, handle: handle, requests: requests, hash: definition.Hash,
		mask: redact.New(job.Secrets)}
	e.Resources = sharedPart(requests, job.Resources)
	return e, err
}

// sharedPart returns part of the requests if it is equal to the list, so that the two share their
// memory. Otherwise it returns the list.
func sharedPart(requests, list []locking.Request) []locking.Request {
	if len(list) == 0 {
		return list
	}
	for i := range len(requests) - len(list) + 1 {
		if part := requests[i : i+len(list) : i+len(list)]; slices.Equal(part, list) {
			return part
		}
	}
	return list
}

// definition returns the job as the store has it. It is needed only at registrations, so entries do
// not keep it.
func (e *entry) definition() (storage.Definition, error) {
	d, err := storage.Describe(&e.Job, e.hash)
	if e.spec != nil {
		d.Source = storage.FromStore
	}
	return d, err
}

// CheckAfter returns every mistake in the dependencies of jobs (schedule.CheckAfter), or nil. The
// jobs are all of one cron table.
func CheckAfter(jobs []jobs.Job) error {
	schedules := make(map[string]schedule.Schedule, len(jobs))
	for _, job := range jobs {
		schedules[job.Name] = job.Schedule
	}
	var problems []error
	for _, m := range schedule.CheckAfter(schedules) {
		problems = append(problems, fmt.Errorf("job %q: schedule: after: %w", m.Job, m))
	}
	return errors.Join(problems...)
}

// unregistered returns the entries that are not registered with the store yet. An active version
// that is known stays known, so usually this looks at no entry.
func (t *cronTable) unregistered() (fresh []*entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.byName()[t.known:] {
		switch {
		case !e.activeVersion.known():
			fresh = append(fresh, e)
		case len(fresh) == 0:
			t.known++
		}
	}
	return fresh
}

// ScheduledFiring is the next firing of a job.
type ScheduledFiring struct {
	Job         string
	ScheduledAt time.Time
	Start       time.Time // later than ScheduledAt by the job's jitter
	Resources   []locking.Request
}

// scheduledTimes returns the first scheduled times after from of one job; none if this replica does
// not fire it.
func (t *cronTable) scheduledTimes(job string, from time.Time, n int) []time.Time {
	e := t.get(job)
	if e == nil || e.activeVersion.otherIsActive() {
		return nil
	}
	if len(e.Schedule.After()) == 0 {
		return e.Schedule.Upcoming(from, n)
	}
	schedules := map[string]schedule.Schedule{}
	for _, other := range t.all() {
		schedules[other.Name] = other.Schedule
	}
	return schedule.ScheduledTimes(schedules, job, from, n)
}

// upcoming returns, for each job that this replica fires, the first firing that starts after from,
// the soonest first, at most n of them.
func (t *cronTable) upcoming(from time.Time, n int) []ScheduledFiring {
	return t.soonest.after(t.all(), from, n)
}

// longestWait returns how long a firing of the job may wait for a held lock, by the policies of the
// job, or limit if that is shorter; false if this replica does not fire the job.
func (t *cronTable) longestWait(job string, limit time.Duration) (time.Duration, bool) {
	e := t.get(job)
	if e == nil || e.activeVersion.otherIsActive() {
		return 0, false
	}
	if e.MisfirePolicy(reasons.LockHeld) != jobs.MisfireSkip {
		return limit, true // the misfire policy extends the wait
	}
	return e.Wait.Longest(limit), true
}
