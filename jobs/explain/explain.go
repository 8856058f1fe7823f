package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// DefaultKeep is how long the history is kept by default.
const DefaultKeep = 30 * 24 * time.Hour

// nearby is the largest distance between a time and the manual runs that its explanation includes.
const nearby = 10 * time.Minute

// Store is what an Explainer reads of the store.
type Store interface {
	Now(ctx context.Context) (time.Time, error)
	Jobs(ctx context.Context) ([]storage.JobView, error)
	Runs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error)
	Firing(ctx context.Context, job string, scheduledAt time.Time) (storage.FiringView, error)
	Replicas(ctx context.Context) ([]storage.ReplicaView, error)
}

// Table is the cron table of a replica.
type Table interface {
	Job(name string) (jobs.Job, bool)
	Names() []string
	Hash(name string) string // of the job's definition; "" if there is none
}

// Options are the sources of an Explainer.
type Options struct {
	Store Store
	Table Table
	// Pauses returns the pauses of a job; nil: pauses are not included.
	Pauses func(ctx context.Context, job, group string, from, until time.Time) ([]storage.Pause,
		error)
	Keep time.Duration // how long the history is kept; 0 means DefaultKeep
}

// Explainer explains the outcome of a job's firing at a time, from the store's history and the
// schedules of this replica. It changes nothing and may be used concurrently.
type Explainer struct{ sources Options }

// New returns an Explainer.
func New(o Options) *Explainer {
	o.Keep = cmp.Or(o.Keep, DefaultKeep)
	return &Explainer{sources: o}
}

// list is a Table.
type list struct {
	names []string
	jobs  map[string]jobs.Job
}

// TableOf returns a list of jobs as a Table.
func TableOf(table []jobs.Job) Table {
	l := list{jobs: make(map[string]jobs.Job, len(table))}
	for _, j := range table {
		l.names = append(l.names, j.Name)
		l.jobs[j.Name] = j
	}
	return l
}

// Job returns a job of the list.
func (l list) Job(name string) (jobs.Job, bool) {
	j, known := l.jobs[name]
	return j, known
}

// Names returns the names of the jobs.
func (l list) Names() []string { return l.names }

// Hash returns the hash of a job's definition.
func (l list) Hash(name string) string {
	job, known := l.jobs[name]
	if !known {
		return ""
	}
	requests, err := job.Requests()
	if err != nil {
		return ""
	}
	d, err := storage.Define(job, requests)
	if err != nil {
		return ""
	}
	return d.Hash
}

// Explain parses the time as schedule.ParseTime does, in the job's zone, and explains the firing of
// the job at that time. If a local time exists twice, Explain takes the one at which the job is
// due, or the first. It returns an error that wraps schedule.ErrTime, an *UnknownJobError, or an
// error of the store.
func (x *Explainer) Explain(ctx context.Context, job, at string) (Explanation, error) {
	now, err := x.sources.Store.Now(ctx)
	if err != nil {
		return Explanation{}, fmt.Errorf("read the store's clock: %w", err)
	}
	subject, _, err := x.subject(ctx, job, now)
	if err != nil {
		return Explanation{}, err
	}
	written, err := schedule.ParseTime(at, subject.Schedule.Zone(), now)
	if err != nil {
		return Explanation{}, err
	}
	meant := written.Times[0]
	for _, t := range written.Times {
		if x.isScheduled(subject, t) {
			meant = t
			break
		}
	}
	e, err := x.ExplainAt(ctx, job, meant)
	if err != nil {
		return e, err
	}
	if written.Note != "" {
		note := written.Note
		if len(written.Times) > 1 {
			note += "; this explanation is for " + shownIn(subject, meant)
		}
		e.Notes = append([]string{note}, e.Notes...)
	}
	return e, nil
}

// ExplainAt explains the firing of the job at a time.
func (x *Explainer) ExplainAt(ctx context.Context, name string, at time.Time) (Explanation, error) {
	return x.explainAt(ctx, name, at.UTC(), map[string]Explanation{})
}

// explainAt is ExplainAt with the explanations of other jobs at the time so far, by job. Many
// dependents may share a dependency, which is explained once.
func (x *Explainer) explainAt(ctx context.Context, name string, at time.Time,
	explained map[string]Explanation) (Explanation, error) {
	if e, known := explained[name]; known {
		return e, nil
	}
	explained[name] = Explanation{Job: name, At: at, Verdict: VerdictNotScheduled,
		Summary: "It depends on itself."} // found only by a job of a cycle
	e, err := x.explainOnce(ctx, name, at, explained)
	if err != nil {
		delete(explained, name)
		return e, err
	}
	explained[name] = e
	return e, nil
}

func (x *Explainer) explainOnce(ctx context.Context, name string, at time.Time,
	explained map[string]Explanation) (Explanation, error) {
	job, view, err := x.subject(ctx, name, at)
	if err != nil {
		return Explanation{}, err
	}
	s := &subject{Explainer: x, ctx: ctx, job: job, view: view, at: at,
		keep: x.sources.Keep, explained: explained}
	s.Explanation = Explanation{
		Job: name, At: at, Timezone: job.Schedule.Zone().String(), Schedule: job.Schedule.String(),
		Now:  view.Now,
		Runs: named(view.Runs), Clocks: job.Schedule.ClocksAt(at), Notes: x.doubts(job, view),
	}
	if view.Version > 0 {
		s.CheckedUntil = &view.CheckedUntil
	}
	near := newScheduledTimes(x.sources.Table.Job)
	s.ScheduledBefore, s.ScheduledAfter = timeOrNil(near.prev(job, at)),
		timeOrNil(near.next(job, at))
	if err := s.manualRuns(); err != nil {
		return Explanation{}, err
	}
	if err := s.decide(); err != nil {
		return Explanation{}, err
	}
	switch s.Verdict {
	case VerdictNotScheduled, VerdictExcluded, VerdictAwaitingDependencies, VerdictDependencyFailed:
	default:
		if len(s.After) == 0 || s.Verdict != VerdictFuture {
			s.StartsAt = &s.start
		}
	}
	return s.Explanation, nil
}

// named returns the runs with the resources of their blockers in display form.
func named(runs []storage.Record) []storage.Record {
	shown := make([]storage.Record, len(runs))
	for i, r := range runs {
		if r.BlockedBy != nil {
			blocker := *r.BlockedBy
			for _, name := range []*string{&blocker.Resource, &blocker.Root.Resource} {
				if resource, err := locking.ParseKey(*name); err == nil {
					*name = resource.String()
				}
			}
			r.BlockedBy = &blocker
		}
		shown[i] = r
	}
	return shown
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// subject returns the job as this replica or else the store has it, with the store's view of the
// firing.
func (x *Explainer) subject(ctx context.Context, name string,
	at time.Time) (jobs.Job, storage.FiringView, error) {
	job, here := x.sources.Table.Job(name)
	view, err := x.sources.Store.Firing(ctx, name, at)
	switch {
	case errors.Is(err, storage.ErrNotFound) && here:
		view.Now, err = x.sources.Store.Now(ctx)
		return job, view, err
	case errors.Is(err, storage.ErrNotFound):
		return job, view, x.unknown(ctx, name)
	case err != nil || here:
		return job, view, err
	}
	job.Name = name
	zone, err := time.LoadLocation(view.Zone)
	if err != nil {
		return job, view, fmt.Errorf("zone of job %s: %w", name, err)
	}
	if view.Schedule != "" {
		job.Schedule, err = schedule.ParseText(view.Schedule, zone)
	}
	return job, view, err
}

func (x *Explainer) unknown(ctx context.Context, name string) error {
	known := slices.Clone(x.sources.Table.Names())
	views, err := x.sources.Store.Jobs(ctx)
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	for _, v := range views {
		known = append(known, v.Name)
	}
	slices.Sort(known)
	return unknownJob(name, slices.Compact(known))
}

// doubts returns notes about what the explanation cannot know.
func (x *Explainer) doubts(job jobs.Job, view storage.FiringView) []string {
	_, here := x.sources.Table.Job(job.Name)
	switch {
	case view.Removed:
		return []string{fmt.Sprintf("the job was removed at %s and is not fired any more",
			shownIn(job, view.UpdatedAt))}
	case !here:
		return []string{"this configuration does not have the job: its calendars, jitter and " +
			"policies are unknown"}
	case view.Version == 0:
		return []string{"no replica has registered the job yet"}
	}
	if hash := x.sources.Table.Hash(job.Name); hash != view.Hash {
		return []string{fmt.Sprintf("the active definition of the job is not the one of this "+
			"configuration: "+
			"it is version %d, active since %s", view.Version, shownIn(job, view.UpdatedAt))}
	}
	return nil
}

// isScheduled reports whether schedules alone make the job due at the time.
func (x *Explainer) isScheduled(job jobs.Job, at time.Time) bool {
	return newScheduledTimes(x.sources.Table.Job).next(job, at.Add(-time.Nanosecond)).Equal(at)
}

// subject is an explanation in progress.
type subject struct {
	*Explainer
	Explanation
	ctx   context.Context
	job   jobs.Job
	view  storage.FiringView
	at    time.Time
	start time.Time // when the firing starts, as far as is known
	keep  time.Duration
	// explained has the explanations of other jobs at the time so far.
	explained map[string]Explanation
}
