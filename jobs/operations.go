package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
)

// OperationsOptions say what Operations work on. Control, Registry and, for
// jobs that are added, Build and Complete are needed.
type OperationsOptions struct {
	Control  Control
	Outbox   Outbox // nil where the store keeps no deliveries
	Registry *Registry
	Jobs     []Job // of the configuration
	// Build makes a Job of a Spec's text, as in Options.
	Build func(text json.RawMessage) (Job, error)
	// Complete checks what somebody wrote and returns it as a Spec has it, or a
	// *SpecError. It may follow what was added before too: those schedules, by name.
	Complete func(written []byte, added map[string]schedule.Schedule) (json.RawMessage, error)
	// Cancelled is told of each run that was cancelled while it waited and no
	// replica had it; nil where nobody wants to know. It must not block.
	Cancelled func(run Record)
	Locker    *locking.Locker // stage 1; nil where there is none, or it can't be reached from here
	Replica   string          // through which acts are done; "" beside all
	Log       zerolog.Logger
}

// Operations are what operators do, as Go programs, the command line and the
// page do it: checked before it reaches the store, and followed through in
// stage 1. Every replica obeys within about a second, whichever of them was
// asked. Each action and its line in the audit log are one transaction.
//
// An Act's empty Actor is "program", its empty Via "go". Errors are those of
// Control, and a *BadInputError for what can't be kept. Methods may be called
// concurrently.
type Operations struct {
	options OperationsOptions

	mu    sync.Mutex
	heard ControlState // the last, which stand while their generation does
	table []Job        // of the configuration
}

// NewOperations returns the Operations.
func NewOperations(o OperationsOptions) *Operations {
	return &Operations{options: o, table: o.Jobs}
}

// SetJobs takes other jobs as those of the configuration.
func (o *Operations) SetJobs(jobs []Job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.table = jobs
}

// configured returns a job of the configuration.
func (o *Operations) configured(name string) (Job, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.table, func(j Job) bool { return j.Name == name }); i >= 0 {
		return o.table[i], true
	}
	return Job{}, false
}

// SpecProblem is one mistake in a job that is to be added.
type SpecProblem struct {
	Line    int    `json:"line,omitempty"` // from 1, as is Column; 0 where that means nothing
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"` // such as schedule or params.statement
	Message string `json:"message"`
}

// SpecError holds every mistake in a job that is to be added.
type SpecError struct {
	Problems []SpecProblem
}

// Error lists the problems, separated by semicolons.
func (e *SpecError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		if texts[i] = p.Message; p.Key != "" {
			texts[i] = p.Key + ": " + p.Message
		}
	}
	return "job: " + strings.Join(texts, "; ")
}

// action completes who acts, and refuses what the audit log can't keep.
func (o *Operations) action(a Action) (Action, error) {
	a.Actor, a.Via, a.Replica = cmp.Or(a.Actor, "program"), cmp.Or(a.Via, "go"),
		cmp.Or(a.Replica, o.options.Replica)
	return a, a.Check()
}

// Pause keeps the target's scheduled firings from starting until it is resumed,
// or returns the pause that stands already.
func (o *Operations) Pause(ctx context.Context, a Action, target Target) (Pause, error) {
	a, err := o.action(a)
	if err != nil {
		return Pause{}, err
	}
	p, err := o.options.Control.Pause(ctx, a, target)
	return p, of(target.String(), err)
}

// Resume ends the target's own pause. Its scheduled times since then are the misfire
// policy's, but for those that can still be started in time. ErrNotFound says
// that it is not paused itself; its group or everything may be.
func (o *Operations) Resume(ctx context.Context, a Action, target Target) (Pause, error) {
	a, err := o.action(a)
	if err != nil {
		return Pause{}, err
	}
	p, err := o.options.Control.Resume(ctx, a, target)
	return p, of(target.String(), err)
}

// Trigger adds a run that any replica takes up. Params of the moment must suit
// the handler's type: a *ParamsError says how they don't, and then nothing
// reaches the store. While the job is paused it returns a *PausedError unless
// the request says otherwise. With a Wait of 0 it returns a *BusyError where something
// is in the way. A Key that was used for the job before returns that run.
func (o *Operations) Trigger(ctx context.Context, a Action, r TriggerRequest) (Triggered, error) {
	a, err := o.action(a)
	if err != nil {
		return Triggered{}, err
	}
	if err := r.Check(); err != nil {
		return Triggered{}, err
	}
	if noParams(r.Params) {
		r.Params = nil
	} else if err := o.checkParams(ctx, r); err != nil {
		return Triggered{}, err
	}
	run, err := o.options.Control.Trigger(ctx, a, r)
	return run, of("job "+r.Job, err)
}

func (o *Operations) checkParams(ctx context.Context, r TriggerRequest) error {
	job, err := o.job(ctx, r.Job)
	if err != nil {
		return err
	}
	merged, err := MergeParams(job.Params, r.Params)
	if err != nil {
		return err
	}
	_, err = o.options.Registry.Bind(job.Handler, merged)
	return err
}

// job returns a job as this process knows it.
func (o *Operations) job(ctx context.Context, name string) (Job, error) {
	if job, found := o.configured(name); found {
		return job, nil
	}
	specs, err := o.Specs(ctx)
	if err != nil {
		return Job{}, err
	}
	i := slices.IndexFunc(specs, func(s Spec) bool { return s.Job == name })
	if i < 0 {
		return Job{}, fmt.Errorf("job %s: %w here, so that nobody can check its params: ask a "+
			"replica that has the job", name, ErrNotFound)
	}
	return o.options.Build(specs[i].Text)
}

// Specs returns the jobs that were added at run time, by name.
func (o *Operations) Specs(ctx context.Context) ([]Spec, error) {
	now, err := o.controlState(ctx)
	return slices.Clone(now.Specs), err
}

// ActivePauses returns the pauses that stand now.
func (o *Operations) ActivePauses(ctx context.Context) ([]Pause, error) {
	now, err := o.controlState(ctx)
	return slices.Clone(now.Pauses), err
}

// controlState returns what holds for all now. The store tells it anew only where
// something was done since: pages ask every few seconds.
func (o *Operations) controlState(ctx context.Context) (ControlState, error) {
	o.mu.Lock()
	heard := o.heard
	o.mu.Unlock()
	now, err := o.options.Control.ControlState(ctx, uuid.Nil, heard.Generation)
	if err != nil || now.Generation == heard.Generation && heard.Generation != 0 {
		return heard, err
	}
	o.mu.Lock()
	o.heard = now
	o.mu.Unlock()
	return now, nil
}

// Cancel ends a run: one that waits at once, one that runs through its replica,
// whose handler's context ends with ErrCancelled. ErrConflict says that it has
// ended.
func (o *Operations) Cancel(ctx context.Context, a Action, run uuid.UUID) (Record, error) {
	a, err := o.action(a)
	if err != nil {
		return Record{}, err
	}
	r, err := o.options.Control.Cancel(ctx, a, run)
	if err == nil && r.State == Cancelled && r.Replica == "" && o.options.Cancelled != nil {
		o.options.Cancelled(r)
	}
	return r, of("run "+run.String(), err)
}

// Release takes a lock away from its holder, who can commit nothing more, and
// removes it from stage 1. The request's token is the holder's as last seen: where
// another holds it now, that is ErrConflict.
func (o *Operations) Release(ctx context.Context, a Action,
	r ReleaseRequest) (locking.Released, error) {
	a, err := o.action(a)
	if err != nil {
		return locking.Released{}, err
	}
	released, err := o.options.Control.Release(ctx, a, r)
	if err != nil {
		return locking.Released{}, of(r.Resource.String(), err)
	}
	if o.options.Locker != nil {
		err := errors.Join(o.options.Locker.ClearReleased(ctx, []locking.Released{released}),
			o.options.Locker.Clear(ctx, released.Requests, released.Owner.Run))
		if err != nil {
			o.options.Log.Warn().Err(err).Int64("token", int64(released.Token)).
				Msg("advisory lock of a released lock not removed, it expires")
		}
	}
	return released, nil
}

// Drain has a replica's session start nothing more, or start runs again. What
// runs goes on. Another session of the replica, after a restart, is not drained.
func (o *Operations) Drain(ctx context.Context, a Action, session uuid.UUID, drain bool) error {
	a, err := o.action(a)
	if err != nil {
		return err
	}
	return of("session "+session.String(), o.options.Control.Drain(ctx, a, session, drain))
}

// AnyVersion stands for the version that an added job has now, if there is one.
const AnyVersion = -1

// PutJob adds a job, or changes one that was added. Text is the job as a
// configuration has it, in YAML or JSON. Version is that of the job as the caller
// has seen it, 0 for a new one, or AnyVersion: of two who add or change one at
// once, one wins and the other is told ErrConflict. A *SpecError says what is wrong with the text,
// ErrFromConfig that the configuration has the job.
func (o *Operations) PutJob(ctx context.Context, a Action, text []byte,
	version int64) (Spec, error) {
	return o.put(ctx, a, "", text, version)
}

// ChangeJob is PutJob for the job of that name: a text that names another is a
// *SpecError.
func (o *Operations) ChangeJob(ctx context.Context, a Action, name string, text []byte,
	version int64) (Spec, error) {
	return o.put(ctx, a, name, text, version)
}

// put adds or changes the job of that name, "" for any.
func (o *Operations) put(ctx context.Context, a Action, name string, text []byte,
	version int64) (Spec, error) {
	a, err := o.action(a)
	if err != nil {
		return Spec{}, err
	}
	specs, err := o.Specs(ctx)
	if err != nil {
		return Spec{}, err
	}
	complete, err := o.options.Complete(text, o.schedules(specs))
	if err != nil {
		return Spec{}, err
	}
	job, err := o.options.Build(complete)
	if err != nil {
		return Spec{}, err
	}
	if name != "" && job.Name != name {
		return Spec{}, &SpecError{Problems: []SpecProblem{
			{Key: "name", Message: fmt.Sprintf(
				"found %q, expected %q: a job's name can't be changed", job.Name, name)}}}
	}
	if err := o.ours(job.Name); err != nil {
		return Spec{}, err
	}
	if _, err := newEntry(o.options.Registry, job); err != nil {
		return Spec{}, &SpecError{Problems: []SpecProblem{{Message: err.Error()}}}
	}
	if version == AnyVersion {
		version = versionIn(specs, job.Name)
	}
	put, err := o.options.Control.PutSpec(ctx, a,
		Spec{Job: job.Name, Text: complete, Version: version}, func(added []Spec) error {
			if _, err := o.options.Complete(text, o.schedules(added)); err != nil {
				return err // what it depends on was removed meanwhile
			}
			if dependents := o.dependents(added, job.Name); len(dependents) > 0 &&
				job.Schedule.String() == "" {
				return &SpecError{Problems: []SpecProblem{{Key: "schedule",
					Message: fmt.Sprintf("found no schedule, expected one: %s follows this job",
						strings.Join(dependents, " and "))}}}
			}
			return nil
		})
	return put, of("job "+job.Name, err)
}

// RemoveJob removes a job that was added. What runs of it goes on, and its
// history stays. Version is as in PutJob. ErrHasDependents says that other added
// jobs follow it: they would never be due again.
func (o *Operations) RemoveJob(ctx context.Context, a Action, name string, version int64) error {
	a, err := o.action(a)
	if err != nil {
		return err
	}
	if err := o.ours(name); err != nil {
		return err
	}
	specs, err := o.Specs(ctx)
	if err != nil {
		return err
	}
	if version == AnyVersion {
		if version = versionIn(specs, name); version == 0 {
			return fmt.Errorf("added job %s: %w", name, ErrNotFound)
		}
	}
	return of("job "+name, o.options.Control.RemoveSpec(ctx, a, name, version,
		func(added []Spec) error {
			if dependents := o.dependents(added, name); len(dependents) > 0 {
				return fmt.Errorf("%w: %s would never be due again; remove first what follows "+
					"it, or have that follow another",
					ErrHasDependents, strings.Join(dependents, " and "))
			}
			return nil
		}))
}

// schedules returns when added jobs are due, but for those that can't be built
// here.
func (o *Operations) schedules(specs []Spec) map[string]schedule.Schedule {
	schedules := make(map[string]schedule.Schedule, len(specs))
	for _, s := range specs {
		if job, err := o.options.Build(s.Text); err == nil {
			schedules[s.Job] = job.Schedule
		}
	}
	return schedules
}

// dependents returns which added jobs follow the job, by name.
func (o *Operations) dependents(specs []Spec, job string) []string {
	var names []string
	for name, s := range o.schedules(specs) {
		if name != job && slices.Contains(s.After(), job) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// versionIn returns the version of an added job, 0 where there is none.
func versionIn(specs []Spec, name string) int64 {
	for _, s := range specs {
		if s.Job == name {
			return s.Version
		}
	}
	return 0
}

// ours refuses the jobs of the configuration.
func (o *Operations) ours(name string) error {
	if _, found := o.configured(name); found {
		return fmt.Errorf("%s: %w", name, ErrFromConfig)
	}
	return nil
}

// Audit returns the audit log, the youngest line first.
func (o *Operations) Audit(ctx context.Context, f AuditFilter) ([]Audited, error) {
	return o.options.Control.Audit(ctx, f)
}

// Undelivered returns what webhooks could not be told so far, and what was
// given up, the youngest first. errors.ErrUnsupported says that the store keeps
// no deliveries.
func (o *Operations) Undelivered(ctx context.Context, f UndeliveredFilter) ([]Undelivered, error) {
	outbox, err := o.outbox()
	if err != nil {
		return nil, err
	}
	return outbox.UndeliveredHooks(ctx, f)
}

// DeliverAgain has a webhook told once more what it could not be told, within
// about a second by whichever replica has the webhook. ErrNotFound says that it
// was told by now, or that it is forgotten.
func (o *Operations) DeliverAgain(ctx context.Context, a Action,
	delivery uuid.UUID) (Undelivered, error) {
	outbox, err := o.outbox()
	if err != nil {
		return Undelivered{}, err
	}
	if a, err = o.action(a); err != nil {
		return Undelivered{}, err
	}
	u, err := outbox.DeliverAgain(ctx, a, delivery)
	return u, of("delivery "+delivery.String(), err)
}

func (o *Operations) outbox() (Outbox, error) {
	if o.options.Outbox == nil {
		return nil, fmt.Errorf("deliveries in %T: %w", o.options.Control, errors.ErrUnsupported)
	}
	return o.options.Outbox, nil
}

// of says what an error of the store is about; a *PausedError and a
// *BusyError say it themselves.
func of(target string, err error) error {
	if err == nil || errors.Is(err, ErrPaused) || errors.Is(err, ErrBusy) {
		return err
	}
	return fmt.Errorf("%s: %w", target, err)
}
