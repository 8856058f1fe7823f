package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/redact"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// SpecProblem is one mistake in the text of a job.
type SpecProblem struct {
	Line    int    `json:"line,omitempty"` // from 1, like Column; 0 if unknown
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"` // such as schedule or params.statement
	Message string `json:"message"`
}

// SpecError lists the mistakes in the text of a job.
type SpecError struct {
	Problems []SpecProblem
}

func (e *SpecError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		if texts[i] = p.Message; p.Key != "" {
			texts[i] = p.Key + ": " + p.Message
		}
	}
	return "job: " + strings.Join(texts, "; ")
}

// Specs returns the jobs that were added at run time, by name.
func (o *Operations) Specs(ctx context.Context) ([]storage.Spec, error) {
	now, err := o.controlState(ctx)
	return slices.Clone(now.Specs), err
}

// AnyVersion stands for the current version of an added job. If there is no added job of that name,
// PutJob takes it as 0 and adds the job.
const AnyVersion = -1

// PutJob adds a job, or changes an added one. text is the job in the form of the configuration, in
// YAML or JSON. version is the version that the caller has seen, 0 for a new job, or AnyVersion.
// PutJob returns one of these errors:
//   - a *SpecError, if the text has mistakes
//   - storage.ErrConflict, if version is not the current one
//   - storage.ErrFromConfig, if the configuration has the job
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

// RemoveJob removes an added job. Its running runs continue, its waiting runs are cancelled, and
// its history stays. version is as in PutJob. RemoveJob returns storage.ErrHasDependents if other
// added jobs depend on the job.
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
