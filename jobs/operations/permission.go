package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// JobTarget returns the job as a target of permissions, with its group. If the store does not know
// the job, the target has no group.
func JobTarget(ctx context.Context, l Lookup, name string) (permission.Target, error) {
	target := permission.Target{Kind: permission.Job, Name: name}
	if len(name) > storage.MaxNameBytes || !utf8.ValidString(name) ||
		strings.ContainsRune(name, 0) {
		return target, nil // no job has this name
	}
	view, err := l.Job(ctx, name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return target, nil
	case err != nil:
		return target, fmt.Errorf("group of job %q: %w", name, err)
	}
	target.Group = view.Group
	return target, nil
}

// RunTarget returns the job of a run as a target of permissions.
func RunTarget(ctx context.Context, l Lookup, id uuid.UUID) (permission.Target, error) {
	run, err := l.Run(ctx, id)
	if err != nil {
		return permission.Target{}, fmt.Errorf("run %s: %w", id, err)
	}
	return JobTarget(ctx, l, run.Job)
}

func everything() permission.Target { return permission.Target{Kind: permission.Everything} }

// mayOnJob checks a permission on a job.
func (o *Operations) mayOnJob(ctx context.Context, p permission.Permission, job string) error {
	return permission.RequireOn(ctx, p, func(ctx context.Context) (permission.Target, error) {
		if o.options.Lookup == nil {
			return everything(), nil
		}
		return JobTarget(ctx, o.options.Lookup, job)
	})
}

// mayOnRun checks a permission on the job of a run.
func (o *Operations) mayOnRun(ctx context.Context, p permission.Permission, run uuid.UUID) error {
	return permission.RequireOn(ctx, p, func(ctx context.Context) (permission.Target, error) {
		if o.options.Lookup == nil {
			return everything(), nil
		}
		return RunTarget(ctx, o.options.Lookup, run)
	})
}

func (o *Operations) mayPause(ctx context.Context, target storage.Target) error {
	switch target.Kind {
	case storage.TargetJob:
		return o.mayOnJob(ctx, permission.Pause, target.Name)
	case storage.TargetGroup:
		return permission.RequireOn(ctx, permission.Pause,
			func(context.Context) (permission.Target, error) {
				return permission.Target{Kind: permission.Group, Name: target.Name}, nil
			})
	}
	return permission.Require(ctx, permission.Pause, everything())
}

// mayEdit checks the permission to add or change the job: for the job as it will be, and for a job
// of that name that is there.
func (o *Operations) mayEdit(ctx context.Context, job jobs.Job) error {
	err := permission.RequireOn(ctx, permission.EditJobs,
		func(context.Context) (permission.Target, error) {
			return permission.Target{Kind: permission.Job, Name: job.Name,
				Group: job.Group}, nil
		})
	if err != nil || o.options.Lookup == nil {
		return err
	}
	return permission.RequireOn(ctx, permission.EditJobs,
		func(ctx context.Context) (permission.Target, error) {
			view, err := o.options.Lookup.Job(ctx, job.Name)
			if errors.Is(err, storage.ErrNotFound) {
				view.Group, err = job.Group, nil
			}
			return permission.Target{Kind: permission.Job, Name: job.Name,
				Group: view.Group}, err
		})
}
