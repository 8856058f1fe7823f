package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
}

// cronTable is what a replica fires, by name.
type cronTable map[string]*entry

// newCronTable binds every job, and reports all mistakes at once.
func newCronTable(registry *Registry, jobs []Job) (cronTable, error) {
	table := make(cronTable, len(jobs))
	var problems []error
	for _, job := range jobs {
		e, err := newEntry(registry, job)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("job %q: %w", job.Name, err))
		case table[job.Name] != nil:
			problems = append(problems, fmt.Errorf("job %q: defined twice", job.Name))
		default:
			table[job.Name] = e
		}
	}
	return table, errors.Join(problems...)
}

func newEntry(registry *Registry, job Job) (*entry, error) {
	handle, err := registry.Bind(job.Handler, job.Params)
	if err != nil {
		return nil, err
	}
	if err := job.checkPolicies(); err != nil {
		return nil, err
	}
	requests, err := job.requests()
	if err != nil {
		return nil, err
	}
	if job.Overlap == OverlapAllow && slices.ContainsFunc(requests, func(r locking.Request) bool { return r.Mode == locking.Exclusive }) {
		return nil, fmt.Errorf("overlap: %q is only for jobs without exclusive resources", OverlapAllow)
	}
	if err := fireable(job.Schedule); err != nil {
		return nil, err
	}
	definition, err := define(job, requests)
	return &entry{Job: job, handle: handle, requests: requests, definition: definition}, err
}

// checkPolicies returns every mistake in the numbers of the job's policies.
func (j *Job) checkPolicies() error {
	var problems []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	policies := []Misfire{MisfireRunOnce, MisfireSkip, MisfireRunAll}
	for _, cause := range []Reason{ReasonMisfire, ReasonNoWorker, ReasonPaused, ReasonLockHeld} {
		must(slices.Contains(policies, j.misfire(cause)), "misfire (%s): one of %v, found %q", cause, policies, j.misfire(cause))
	}
	limit := j.lateLimit()
	must(j.MisfireThreshold >= time.Second, "misfire threshold: at least 1s, found %s", j.MisfireThreshold)
	must(limit >= 1 && limit <= maxLateRuns, "misfire limit: 1 to %d, found %d", maxLateRuns, limit)
	must(j.MisfireBy.MaxAge >= 0, "misfire age: 0s for no limit, or more, found %s", j.MisfireBy.MaxAge)
	must(j.Deadline >= 0, "deadline: 0s for none, or more, found %s", j.Deadline)
	must(j.priority() >= 1 && j.priority() <= MaxPriority, "priority: 1 to %d, found %d", MaxPriority, j.Priority)
	must(j.GroupLimits == GroupLimits{} || j.Group != "", "group limits: only with a group")
	must(j.GroupLimits.PerReplica >= 0, "places of group %s: 0 for no limit, or more, found %d", j.Group, j.GroupLimits.PerReplica)
	return errors.Join(problems...)
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

// definitions returns what Register writes.
func (t cronTable) definitions() []Definition {
	all := make([]Definition, 0, len(t))
	for _, e := range t {
		all = append(all, e.definition)
	}
	return all
}

// names returns the jobs' names, sorted.
func (t cronTable) names() []string { return slices.Sorted(maps.Keys(t)) }

// inForce returns the names, sorted, of the jobs that are this replica's to
// fire.
func (t cronTable) inForce() []string {
	return slices.DeleteFunc(t.names(), func(name string) bool { return t[name].standing.stale() })
}

// Due is an instant at which a job is to be fired.
type Due struct {
	Job       string
	Due       time.Time
	Resources []locking.Request
}

// upcoming returns the first due after from of each job, the soonest first,
// at most n of them. When the others are due, it is not for this replica to say.
func (t cronTable) upcoming(from time.Time, n int) []Due {
	var dues []Due
	for _, e := range t {
		if due := e.Schedule.Next(from); !due.IsZero() && !e.standing.stale() {
			dues = append(dues, Due{Job: e.Name, Due: due.UTC(), Resources: e.Resources})
		}
	}
	slices.SortFunc(dues, func(a, b Due) int { return cmp.Or(a.Due.Compare(b.Due), strings.Compare(a.Job, b.Job)) })
	return dues[:min(n, len(dues))]
}
