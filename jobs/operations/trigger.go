package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Trigger adds a run that any replica may adopt. If the actor has used the Key for this job before,
// Trigger returns the run of that trigger. It returns one of these errors:
//   - a *jobs.ParamsError, if the params do not fit the type of the handler, or the job does not
//     list them as overridable
//   - a *storage.PausedError, if the job is paused and the request has no EvenPaused. EvenPaused
//     needs the permission to pause the job.
//   - a *storage.BusyError, if Wait is 0 and something blocks the run
//   - another error that wraps storage.ErrBusy, if Wait is 0 and no replica can start runs of the
//     job
//   - storage.ErrKeyUsed, if the actor has used the Key for another request for this job
func (o *Operations) Trigger(ctx context.Context, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	return o.TriggerBy(ctx, a, r, func(ctx context.Context, a storage.Action,
		r storage.TriggerRequest) (storage.Triggered, error) {
		if r.AtOnce() {
			if err := o.requireReplica(ctx, r.Job); err != nil {
				return storage.Triggered{}, fmt.Errorf("trigger: %w", err)
			}
		}
		return o.options.Control.Trigger(ctx, a, r)
	})
}

// requireReplica returns an error if no replica can start a run of the job: none is live, each of
// them is draining or stopping, or none has the job.
func (o *Operations) requireReplica(ctx context.Context, job string) error {
	now, err := o.options.Lookup.Now(ctx)
	if err != nil {
		return err
	}
	replicas, err := o.options.Lookup.Replicas(ctx)
	if err != nil {
		return err
	}
	able := slices.ContainsFunc(replicas, func(r storage.ReplicaView) bool {
		return r.LiveAt(now) && !r.Draining && !r.Stopping
	})
	if !able {
		return fmt.Errorf("job %s cannot run now (%w): no replica can start runs", job,
			storage.ErrBusy)
	}
	view, err := o.options.Lookup.Job(ctx, job)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil // the trigger says more about it
	case err != nil:
		return err
	case view.AbsentSince != nil:
		return fmt.Errorf("job %s cannot run now (%w): no live replica has the job", job,
			storage.ErrBusy)
	}
	return nil
}

// TriggerBy is Trigger with another way to add the run, such as in a transaction of the caller.
func (o *Operations) TriggerBy(ctx context.Context, a storage.Action, r storage.TriggerRequest,
	add func(context.Context, storage.Action, storage.TriggerRequest) (storage.Triggered, error),
) (storage.Triggered, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return storage.Triggered{}, err
	}
	if err := o.mayOnJob(ctx, permission.Trigger, r.Job); err != nil {
		return storage.Triggered{}, err
	}
	if r.EvenPaused {
		if err := o.mayOnJob(ctx, permission.Pause, r.Job); err != nil {
			return storage.Triggered{}, err
		}
	}
	if err := r.Check(); err != nil {
		return storage.Triggered{}, err
	}
	if len(r.Params) == 0 || bytes.Equal(r.Params, []byte("null")) {
		r.Params = nil
	} else if err := o.checkParams(ctx, r); err != nil {
		return storage.Triggered{}, err
	}
	run, err := add(ctx, a, r)
	if _, ours := o.configured(r.Job); ours {
		err = notReady(err)
	}
	return run, of("job "+r.Job, err)
}

// notReady adds the cause to the error for a job of this program that the store does not have.
func notReady(err error) error {
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w in the store: no replica with this job has become ready yet", err)
}

func (o *Operations) checkParams(ctx context.Context, r storage.TriggerRequest) error {
	job, err := o.job(ctx, r.Job)
	if err != nil {
		return fmt.Errorf("params of %w", err)
	}
	merged, err := storage.MergeParams(job.Params, r.Params)
	if err != nil {
		return err
	}
	if _, err = o.options.Registry.Bind(job.Handler, merged); err != nil {
		return masked(job, err)
	}
	return checkOverridable(job, r.Params)
}

// checkOverridable returns a *ParamsError if the trigger overrides params that the job does not
// list.
func checkOverridable(job jobs.Job, trigger json.RawMessage) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(trigger, &given); err != nil {
		return fmt.Errorf("params: %w", err)
	}
	expected := "none: the job has no overridable params"
	if len(job.Overridable) > 0 {
		expected = "one of " + strings.Join(job.Overridable, ", ")
	}
	var problems []jobs.ParamProblem
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(job.Overridable, key) {
			problems = append(problems, jobs.ParamProblem{Key: key, Message: fmt.Sprintf(
				"a trigger cannot override %q, expected %s", key, expected)})
		}
	}
	if len(problems) > 0 {
		return &jobs.ParamsError{Problems: problems}
	}
	return nil
}

// Overridable returns the params of a job that a trigger can override. It returns
// storage.ErrNotFound if this configuration does not have the job.
func (o *Operations) Overridable(ctx context.Context, name string) ([]string, error) {
	job, err := o.job(ctx, name)
	return job.Overridable, err
}
