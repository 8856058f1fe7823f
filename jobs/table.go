package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
)

// errNotFired refuses schedules that can be read but are not fired yet: a job
// that would never run, or not as it says, is a mistake to be told at start.
var errNotFired = errors.New("this version reads it, but does not fire by it yet")

// entry is a job that is ready to be fired: its handler is bound, its
// requests are in normal form.
type entry struct {
	Job
	handle     HandlerFunc
	requests   []locking.Request
	definition Definition
	standing   standing
	spec       *Spec // of a job that was added at run time
}

// cronTable is what a replica fires: the jobs that it was given, and those that
// were added at run time. An entry is not changed but for its standing: a job
// that changes gets another. It may be used concurrently.
type cronTable struct {
	mu      sync.RWMutex
	entries map[string]*entry
}

// newCronTable binds every job, and reports all mistakes at once.
func newCronTable(registry *Registry, jobs []Job) (*cronTable, error) {
	table := &cronTable{entries: make(map[string]*entry, len(jobs))}
	var problems []error
	for _, job := range jobs {
		e, err := newEntry(registry, job)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("job %q: %w", job.Name, err))
		case table.entries[job.Name] != nil:
			problems = append(problems, fmt.Errorf("job %q: defined twice", job.Name))
		default:
			table.entries[job.Name] = e
		}
	}
	return table, errors.Join(problems...)
}

// get returns the job's entry, or nil.
func (t *cronTable) get(name string) *entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.entries[name]
}

// has reports whether the entry is still the one of its job.
func (t *cronTable) has(e *entry) bool { return t.get(e.Name) == e }

// put takes an entry in place of the one of its job, if there is one. Until its
// definition is registered nobody fires by it here.
func (t *cronTable) put(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries[e.Name] = e
}

// remove forgets a job. What runs of it goes on.
func (t *cronTable) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, name)
}

// all returns the entries, by name.
func (t *cronTable) all() []*entry {
	t.mu.RLock()
	all := slices.Collect(maps.Values(t.entries))
	t.mu.RUnlock()
	slices.SortFunc(all, func(a, b *entry) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (t *cronTable) len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.entries)
}

func newEntry(registry *Registry, job Job) (*entry, error) {
	handle, err := registry.Bind(job.Handler, job.Params)
	if err != nil {
		return nil, err
	}
	requests, err := job.requests()
	if err != nil {
		return nil, err
	}
	if job.Overlap == OverlapAllow && slices.ContainsFunc(requests, func(r locking.Request) bool { return r.Mode == locking.Exclusive }) {
		return nil, fmt.Errorf("overlap: %q is only for jobs without exclusive resources", OverlapAllow)
	}
	if job.MisfireThreshold < time.Second {
		return nil, fmt.Errorf("misfire threshold: at least 1s, found %s", job.MisfireThreshold)
	}
	if err := fireable(job.Schedule); err != nil {
		return nil, err
	}
	definition, err := define(job, requests)
	return &entry{Job: job, handle: handle, requests: requests, definition: definition}, err
}

func fireable(s schedule.Schedule) error {
	switch {
	case len(s.After()) > 0:
		return fmt.Errorf("schedule: after other jobs: %w", errNotFired)
	case s.MaxDelay() > 0:
		return fmt.Errorf("jitter: %w", errNotFired)
	}
	return nil
}

// unregistered returns the entries that the store was not asked about yet.
func (t *cronTable) unregistered() []*entry {
	return slices.DeleteFunc(t.all(), func(e *entry) bool { return e.standing.heard() })
}

// inForce returns the entries, by name, that are this replica's to fire.
func (t *cronTable) inForce() []*entry {
	return slices.DeleteFunc(t.all(), func(e *entry) bool { return e.standing.stale() })
}

// Due is an instant at which a job is to be fired.
type Due struct {
	Job       string
	Due       time.Time
	Resources []locking.Request
}

// upcoming returns the first due after from of each job, the soonest first,
// at most n of them. When the others are due, it is not for this replica to say.
func (t *cronTable) upcoming(from time.Time, n int) []Due {
	var dues []Due
	for _, e := range t.all() {
		if due := e.Schedule.Next(from); !due.IsZero() && !e.standing.elsewhere() {
			dues = append(dues, Due{Job: e.Name, Due: due.UTC(), Resources: e.Resources})
		}
	}
	slices.SortFunc(dues, func(a, b Due) int { return cmp.Or(a.Due.Compare(b.Due), strings.Compare(a.Job, b.Job)) })
	return dues[:min(n, len(dues))]
}
