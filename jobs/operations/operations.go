package operations

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

	"github.com/holdfast-dev/holdfast/internal/redact"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Control is what Operations needs of the store.
type Control interface {
	storage.Actions
	ControlState(ctx context.Context, session uuid.UUID, since int64) (storage.ControlState, error)
	Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error)
}

// Lookup is what permissions need of the store. Every storage.Store implements it.
type Lookup interface {
	Job(ctx context.Context, name string) (storage.JobView, error)
	Run(ctx context.Context, id uuid.UUID) (storage.Record, error)
	FiringRuns(ctx context.Context, f storage.Firing) ([]storage.Record, error)
}

// Options are the options of Operations. Control and Registry are required, and for added
// jobs also Build and Complete.
type Options struct {
	Control Control
	Outbox  storage.Outbox // nil if the store has no deliveries
	// Lookup finds the jobs of runs and the groups of jobs. It may be nil if no context has a
	// subject whose permissions are limited.
	Lookup   Lookup
	Registry *jobs.Registry
	Jobs     []jobs.Job // of the configuration
	// Build returns the Job of a Spec's text, as in Options.
	Build func(text json.RawMessage) (jobs.Job, error)
	// Complete checks the written text of a job and returns the text of its Spec, or a *SpecError.
	// The job may depend on the added jobs, whose schedules are given by name.
	Complete func(written []byte, added map[string]schedule.Schedule) (json.RawMessage, error)
	// Cancelled is called for each run that was cancelled while it waited and that no replica had;
	// it may be nil. It must not block.
	Cancelled func(run storage.Record)
	Locker    *locking.Locker // nil without memcached, or if it is not reachable
	Replica   string          // the replica that executes actions; "" if none does
	Log       zerolog.Logger
}

// Operations executes operator actions for Go programs, the command line and the page. It checks
// each action before it calls the store, and clears the advisory locks after it. Every replica
// obeys within about a second. Each action and its line in the audit log are one transaction.
//
// The subject of the context needs the permission for each action (package permission); a
// *permission.DeniedError names the one that is missing. A context without a subject may do
// everything.
//
// An empty Actor of an Action means "program", an empty Via "go". Errors are those of Control, and
// a *BadInputError for invalid input. Methods may be called concurrently.
type Operations struct {
	options Options

	mu    sync.Mutex
	heard storage.ControlState // the last one read; valid while its generation is current
	table []jobs.Job           // of the configuration
}

// New returns Operations with these options.
func New(o Options) *Operations {
	return &Operations{options: o, table: o.Jobs}
}

// SetJobs replaces the jobs of the configuration.
func (o *Operations) SetJobs(jobs []jobs.Job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.table = jobs
}

// configured returns the job of that name of the configuration.
func (o *Operations) configured(name string) (jobs.Job, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.table, func(j jobs.Job) bool { return j.Name == name }); i >= 0 {
		return o.table[i], true
	}
	return jobs.Job{}, false
}

// SpecProblem is one mistake in the text of a job.
type SpecProblem struct {
	Line    int    `json:"line,omitempty"` // from 1, like Column; 0 if unknown
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"` // such as schedule or params.statement
	Message string `json:"message"`
}

// SpecError holds every mistake in the text of a job.
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

// action sets the defaults of the action, and refuses invalid ones. The proof is that of the
// context's subject.
func (o *Operations) action(ctx context.Context, a storage.Action) (storage.Action, error) {
	who, _ := permission.IdentityOf(ctx)
	a.Proof = cmp.Or(a.Proof, who.Proof, "none")
	a.Actor, a.Via, a.Replica = cmp.Or(a.Actor, "program"), cmp.Or(a.Via, "go"),
		cmp.Or(a.Replica, o.options.Replica)
	return a, a.Check()
}

// Pause prevents the target's scheduled firings from starting until it is resumed. It returns the
// active pause if there is one already.
func (o *Operations) Pause(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return storage.Pause{}, err
	}
	if err := o.mayPause(ctx, target); err != nil {
		return storage.Pause{}, err
	}
	p, err := o.options.Control.Pause(ctx, a, target)
	return p, of(target.String(), err)
}

// Resume ends the target's own pause. The misfire policy decides on its scheduled times since then,
// except for those that can still start in time. It returns ErrNotFound if the target itself is not
// paused; its group or everything may be.
func (o *Operations) Resume(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return storage.Pause{}, err
	}
	if err := o.mayPause(ctx, target); err != nil {
		return storage.Pause{}, err
	}
	p, err := o.options.Control.Resume(ctx, a, target)
	return p, of(target.String(), err)
}

// job returns a job of the configuration or an added one.
func (o *Operations) job(ctx context.Context, name string) (jobs.Job, error) {
	if job, found := o.configured(name); found {
		return job, nil
	}
	specs, err := o.Specs(ctx)
	if err != nil {
		return jobs.Job{}, err
	}
	i := slices.IndexFunc(specs, func(s storage.Spec) bool { return s.Job == name })
	if i < 0 {
		return jobs.Job{}, fmt.Errorf("params of job %q: %w in this configuration; use a "+
			"replica that has the job", name, storage.ErrNotFound)
	}
	return o.options.Build(specs[i].Text)
}

// Specs returns the jobs that were added at run time, by name.
func (o *Operations) Specs(ctx context.Context) ([]storage.Spec, error) {
	now, err := o.controlState(ctx)
	return slices.Clone(now.Specs), err
}

// ActivePauses returns the active pauses.
func (o *Operations) ActivePauses(ctx context.Context) ([]storage.Pause, error) {
	now, err := o.controlState(ctx)
	return slices.Clone(now.Pauses), err
}

// controlState returns the control state that applies to all replicas. The store sends it only if
// it has changed, because pages ask every few seconds.
func (o *Operations) controlState(ctx context.Context) (storage.ControlState, error) {
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

// Cancel ends a run: a waiting run at once, a running run through its replica. The context of its
// handler ends with ErrCancelled. It returns ErrConflict if the run has ended.
func (o *Operations) Cancel(ctx context.Context, a storage.Action,
	run uuid.UUID) (storage.Record, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return storage.Record{}, err
	}
	if err := o.mayOnRun(ctx, permission.Cancel, run); err != nil {
		return storage.Record{}, err
	}
	r, err := o.options.Control.Cancel(ctx, a, run)
	if err == nil && r.State == jobs.Cancelled && r.Replica == "" && o.options.Cancelled != nil {
		o.options.Cancelled(r)
	}
	return r, of("run "+run.String(), err)
}

// Release takes a lock away from its holder, which cannot commit any more, and removes the advisory
// lock. The request's token is the holder's as last seen. If another run holds the lock now, it
// returns ErrConflict.
func (o *Operations) Release(ctx context.Context, a storage.Action,
	r storage.ReleaseRequest) (locking.Released, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return locking.Released{}, err
	}
	if err := permission.RequireOn(ctx, permission.Release,
		func(context.Context) (permission.Target, error) {
			return permission.Target{Kind: permission.Resource, Name: r.Resource.String()}, nil
		}); err != nil {
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
				Msg("remove released advisory lock failed, it expires")
		}
	}
	return released, nil
}

// Drain makes a replica's session start nothing more, or start runs again. Active runs go on. A
// later session of the replica, after a restart, is not drained.
func (o *Operations) Drain(ctx context.Context, a storage.Action, session uuid.UUID,
	drain bool) error {
	a, err := o.action(ctx, a)
	if err != nil {
		return err
	}
	if err := permission.Require(ctx, permission.Drain, everything()); err != nil {
		return err
	}
	return of("session "+session.String(), o.options.Control.Drain(ctx, a, session, drain))
}

// AnyVersion stands for the current version of an added job, if it exists.
const AnyVersion = -1

// PutJob adds a job, or changes an added one. Text is the job in the form of the configuration, in
// YAML or JSON. Version is the version that the caller has seen, 0 for a new job, or AnyVersion. Of
// two concurrent calls one succeeds and the other returns ErrConflict. A *SpecError lists the
// mistakes in the text. ErrFromConfig says that the configuration has the job.
func (o *Operations) PutJob(ctx context.Context, a storage.Action, text []byte,
	version int64) (storage.Spec, error) {
	return o.put(ctx, a, "", text, version)
}

// ChangeJob is PutJob for the job of that name. A text with another name is a *SpecError.
func (o *Operations) ChangeJob(ctx context.Context, a storage.Action, name string, text []byte,
	version int64) (storage.Spec, error) {
	return o.put(ctx, a, name, text, version)
}

// check returns what is wrong with a job that is to be added.
func (o *Operations) check(job jobs.Job) error {
	if _, err := o.options.Registry.Bind(job.Handler, job.Params); err != nil {
		return masked(job, err)
	}
	_, err := job.Check()
	return err
}

// masked returns an error of a handler about the params of a job without the secrets in them.
func masked(job jobs.Job, err error) error {
	mask := redact.New(job.Secrets)
	var refused *jobs.ParamsError
	if !errors.As(err, &refused) {
		return mask.Error(err)
	}
	problems := slices.Clone(refused.Problems)
	for i := range problems {
		problems[i].Message = mask.Text(problems[i].Message)
	}
	return &jobs.ParamsError{Problems: problems}
}

// put adds or changes the job of that name; "" allows any name.
func (o *Operations) put(ctx context.Context, a storage.Action, name string, text []byte,
	version int64) (storage.Spec, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return storage.Spec{}, err
	}
	if err := permission.Require(ctx, permission.EditJobs,
		permission.Target{Kind: permission.Something}); err != nil {
		return storage.Spec{}, err
	}
	specs, err := o.Specs(ctx)
	if err != nil {
		return storage.Spec{}, err
	}
	complete, err := o.options.Complete(text, o.schedules(specs))
	if err != nil {
		return storage.Spec{}, err
	}
	job, err := o.options.Build(complete)
	if err != nil {
		return storage.Spec{}, err
	}
	if name != "" && job.Name != name {
		return storage.Spec{}, &SpecError{Problems: []SpecProblem{
			{Key: "name", Message: fmt.Sprintf(
				"found %q, expected %q: the name of a job cannot be changed", job.Name, name)}}}
	}
	if err := o.mayEdit(ctx, job); err != nil {
		return storage.Spec{}, err
	}
	if err := o.ours(job.Name); err != nil {
		return storage.Spec{}, err
	}
	if err := o.check(job); err != nil {
		return storage.Spec{}, &SpecError{Problems: []SpecProblem{{Message: err.Error()}}}
	}
	if version == AnyVersion {
		version = versionIn(specs, job.Name)
	}
	put, err := o.options.Control.PutSpec(ctx, a,
		storage.Spec{Job: job.Name, Text: complete, Version: version},
		func(added []storage.Spec) error {
			if _, err := o.options.Complete(text, o.schedules(added)); err != nil {
				return err // a dependency was removed meanwhile
			}
			if dependents := o.dependents(added, job.Name); len(dependents) > 0 &&
				job.Schedule.String() == "" {
				return &SpecError{Problems: []SpecProblem{{Key: "schedule",
					Message: fmt.Sprintf("found no schedule, expected one: %s depends on this job",
						strings.Join(dependents, " and "))}}}
			}
			return nil
		})
	return put, of("job "+job.Name, err)
}

// RemoveJob removes an added job. Its active runs go on, and its history stays. Version is as in
// PutJob. ErrHasDependents says that other added jobs depend on it: they would never be due again.
func (o *Operations) RemoveJob(ctx context.Context, a storage.Action, name string,
	version int64) error {
	a, err := o.action(ctx, a)
	if err != nil {
		return err
	}
	if err := o.mayOnJob(ctx, permission.EditJobs, name); err != nil {
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
			return fmt.Errorf("added job %s: %w", name, storage.ErrNotFound)
		}
	}
	return of("job "+name, o.options.Control.RemoveSpec(ctx, a, name, version,
		func(added []storage.Spec) error {
			if dependents := o.dependents(added, name); len(dependents) > 0 {
				return fmt.Errorf("%w: %s would never be due again; remove the dependents "+
					"first, or change their dependencies",
					storage.ErrHasDependents, strings.Join(dependents, " and "))
			}
			return nil
		}))
}

// schedules returns the schedules of added jobs, by name, without those that cannot be built.
func (o *Operations) schedules(specs []storage.Spec) map[string]schedule.Schedule {
	schedules := make(map[string]schedule.Schedule, len(specs))
	for _, s := range specs {
		if job, err := o.options.Build(s.Text); err == nil {
			schedules[s.Job] = job.Schedule
		}
	}
	return schedules
}

// dependents returns the added jobs that depend on the job, by name.
func (o *Operations) dependents(specs []storage.Spec, job string) []string {
	var names []string
	for name, s := range o.schedules(specs) {
		if name != job && slices.Contains(s.After(), job) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// versionIn returns the version of an added job, or 0 if it does not exist.
func versionIn(specs []storage.Spec, name string) int64 {
	for _, s := range specs {
		if s.Job == name {
			return s.Version
		}
	}
	return 0
}

// ours returns ErrFromConfig for jobs of the configuration.
func (o *Operations) ours(name string) error {
	if _, found := o.configured(name); found {
		return fmt.Errorf("%s: %w", name, storage.ErrFromConfig)
	}
	return nil
}

// Audit returns the audit log, the youngest line first.
func (o *Operations) Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error) {
	return o.options.Control.Audit(ctx, f)
}

// Undelivered returns deliveries that have failed so far or were given up, the youngest first.
// errors.ErrUnsupported says that the store has no deliveries.
func (o *Operations) Undelivered(ctx context.Context,
	f storage.UndeliveredFilter) ([]storage.Undelivered, error) {
	outbox, err := o.outbox()
	if err != nil {
		return nil, err
	}
	return outbox.UndeliveredHooks(ctx, f)
}

// DeliverAgain makes a failed delivery due at once. Any replica with the webhook sends it within
// about a second. ErrNotFound says that it was delivered meanwhile, or deleted.
func (o *Operations) DeliverAgain(ctx context.Context, a storage.Action,
	delivery uuid.UUID) (storage.Undelivered, error) {
	outbox, err := o.outbox()
	if err != nil {
		return storage.Undelivered{}, err
	}
	if a, err = o.action(ctx, a); err != nil {
		return storage.Undelivered{}, err
	}
	if err := permission.Require(ctx, permission.Trigger, everything()); err != nil {
		return storage.Undelivered{}, err
	}
	u, err := outbox.DeliverAgain(ctx, a, delivery)
	return u, of("delivery "+delivery.String(), err)
}

func (o *Operations) outbox() (storage.Outbox, error) {
	if o.options.Outbox == nil {
		return nil, fmt.Errorf("deliveries in %T: %w", o.options.Control, errors.ErrUnsupported)
	}
	return o.options.Outbox, nil
}

// of wraps an error of the store with its target. A *PausedError and a *BusyError name it already.
func of(target string, err error) error {
	if err == nil || errors.Is(err, storage.ErrPaused) || errors.Is(err, storage.ErrBusy) {
		return err
	}
	return fmt.Errorf("%s: %w", target, err)
}
