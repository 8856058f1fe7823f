package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
)

// MergeParams merges trigger params over the params of a job, key by key: a key of the trigger
// replaces that of the job. Values are not merged. Nil is an empty object on either side. It
// returns a *ParamsError if one of them is not an object. Registry.Bind checks whether the handler
// accepts the result.
func MergeParams(job, trigger json.RawMessage) (json.RawMessage, error) {
	if noParams(trigger) {
		return job, nil
	}
	merged, err := paramKeys(job)
	if err != nil {
		return nil, err
	}
	over, err := paramKeys(trigger)
	if err != nil {
		return nil, err
	}
	maps.Copy(merged, over)
	encoded, err := json.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	return encoded, nil
}

func noParams(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// paramKeys returns the params by key, never nil.
func paramKeys(raw json.RawMessage) (map[string]json.RawMessage, error) {
	keys := map[string]json.RawMessage{}
	if noParams(raw) {
		return keys, nil
	}
	if err := json.Unmarshal(raw, &keys); err != nil {
		return nil, &ParamsError{Problems: []ParamProblem{{Message: "expected a mapping of keys " +
			"to values"}}}
	}
	return keys, nil
}

// triggerParamsError is an error of the trigger params of a run. Another attempt would have the same.
type triggerParamsError struct{ cause error }

func (e *triggerParamsError) Error() string { return "trigger params: " + e.cause.Error() }
func (e *triggerParamsError) Unwrap() error { return e.cause }

// handler returns the job's handler and the params of the run: the job's, overridden by the
// trigger's. Trigger params are bound within the attempt, so that errors and panics of the binding
// end the attempt.
func (f *firing) handler() (HandlerFunc, json.RawMessage) {
	if noParams(f.triggerParams) {
		return f.entry.handle, f.entry.Params
	}
	params, err := MergeParams(f.entry.Params, f.triggerParams)
	return func(ctx context.Context, run *Run) error {
		if err != nil {
			return &triggerParamsError{err}
		}
		bound, err := f.registry.Bind(f.entry.Handler, params)
		if err != nil {
			return &triggerParamsError{err}
		}
		return bound(ctx, run)
	}, params
}
