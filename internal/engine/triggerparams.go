package engine

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// triggerParamsError is an error of the trigger params of a run. Another attempt would have the
// same.
type triggerParamsError struct{ cause error }

func (e *triggerParamsError) Error() string { return "trigger params: " + e.cause.Error() }

func (e *triggerParamsError) Unwrap() error { return e.cause }

// bindTriggerParams returns the job's handler and the params of the run: the job's, overridden by
// the trigger's. Trigger params are bound within the attempt, so that errors and panics of the
// binding end the attempt.
func bindTriggerParams(registry *jobs.Registry,
	f *firing) (jobs.HandlerFunc, json.RawMessage) {
	if len(f.triggerParams) == 0 || bytes.Equal(f.triggerParams, []byte("null")) {
		return f.entry.handle, f.entry.Params
	}
	params, err := storage.MergeParams(f.entry.Params, f.triggerParams)
	return func(ctx context.Context, run *jobs.Run) error {
		if err != nil {
			return &triggerParamsError{err}
		}
		bound, err := registry.Bind(f.entry.Handler, params)
		if err != nil {
			return &triggerParamsError{err}
		}
		return bound(ctx, run)
	}, params
}
