package jobs

import (
	"encoding/json"
	"fmt"
	"maps"
)

// MergeParams returns a job's own params with those of the moment over them, by
// key. Either may be nil. It returns a *ParamsError where one is no object.
func MergeParams(own, moment json.RawMessage) (json.RawMessage, error) {
	if blankParams(moment) {
		return own, nil
	}
	merged, err := paramsByKey(own)
	if err != nil {
		return nil, err
	}
	over, err := paramsByKey(moment)
	if err != nil {
		return nil, err
	}
	maps.Copy(merged, over)
	text, err := json.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	return text, nil
}

func blankParams(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func paramsByKey(raw json.RawMessage) (map[string]json.RawMessage, error) {
	keys := map[string]json.RawMessage{}
	if blankParams(raw) {
		return keys, nil
	}
	if err := json.Unmarshal(raw, &keys); err != nil || keys == nil {
		return nil, &ParamsError{Problems: []ParamProblem{{Message: "expected a mapping of keys to values"}}}
	}
	return keys, nil
}
