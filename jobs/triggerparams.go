package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
)

// MergeParams lays params of the moment over a job's own, key by key: a key of
// the moment takes the place of the job's, values are not merged. Nil is an
// empty object on either side. It returns a *ParamsError for what is no object;
// whether the handler takes the result, Registry.Bind tells.
func MergeParams(job, moment json.RawMessage) (json.RawMessage, error) {
	if noParams(moment) {
		return job, nil
	}
	merged, err := paramKeys(job)
	if err != nil {
		return nil, err
	}
	over, err := paramKeys(moment)
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

// paramKeys returns params by their keys, never nil.
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

// momentError refuses a run's params of the moment. Another attempt would have
// the same.
type momentError struct{ cause error }

func (e *momentError) Error() string { return "of the moment: " + e.cause.Error() }
func (e *momentError) Unwrap() error { return e.cause }

// handler returns the job's handler, with what the run is given as params: the
// job's, with those of the moment over them. These are bound within the
// attempt, so that whatever binding them does is the run's.
func (f *firing) handler() (HandlerFunc, json.RawMessage) {
	if noParams(f.moment) {
		return f.entry.handle, f.entry.Params
	}
	params, err := MergeParams(f.entry.Params, f.moment)
	return func(ctx context.Context, run *Run) error {
		if err != nil {
			return &momentError{err}
		}
		bound, err := f.registry.Bind(f.entry.Handler, params)
		if err != nil {
			return &momentError{err}
		}
		return bound(ctx, run)
	}, params
}
