package storage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/holdfast-dev/holdfast/jobs"
)

// MergeParams replaces params of a job by those of a trigger, key by key. Nil is an empty object.
// It returns a *jobs.ParamsError if one of them is not an object.
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
		return nil, &jobs.ParamsError{Problems: []jobs.ParamProblem{
			{Message: "expected a mapping of keys to values"}}}
	}
	return keys, nil
}
