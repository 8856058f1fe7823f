package operations

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestTriggersReplaceOverridableParamsOnly checks that a trigger cannot choose what a job runs.
func TestTriggersReplaceOverridableParamsOnly(t *testing.T) {
	for _, test := range []struct {
		overridable []string
		trigger     string
		want        []string // refused keys
	}{
		{nil, `{}`, nil},
		{nil, `{"command": ["sh"]}`, []string{"command"}},
		{[]string{"args"}, `{"args": [1]}`, nil},
		{[]string{"args"}, `{"args": [1], "statement": "DROP TABLE t"}`, []string{"statement"}},
		{[]string{"args"}, `{"Args": [1], "": 1}`, []string{"", "Args"}},
		{[]string{"args", "statement"}, `{"args": [1], "statement": "SELECT 1"}`, nil},
	} {
		err := checkOverridable(jobs.Job{Overridable: test.overridable},
			json.RawMessage(test.trigger))
		var refused *jobs.ParamsError
		var got []string
		if errors.As(err, &refused) {
			for _, p := range refused.Problems {
				got = append(got, p.Key)
			}
		}
		if strings.Join(got, "|") != strings.Join(test.want, "|") ||
			(err == nil) != (test.want == nil) {
			t.Errorf("%v %s: got %v, want %q", test.overridable, test.trigger, err, test.want)
		}
	}
}

// TestTriggersAreCheckedBeforeTheStore checks that a trigger with a refused param does not reach
// the store, and that one with an overridable param does.
func TestTriggersAreCheckedBeforeTheStore(t *testing.T) {
	registry, err := jobs.NewRegistry(jobs.Handle("work",
		func(context.Context, *jobs.Run, map[string]any) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	o := New(Options{Registry: registry, Control: &controlOfProof{},
		Configured: explain.TableOf([]jobs.Job{{Name: "j", Handler: "work",
			Overridable: []string{"rows"}}}).Job})
	for params, reached := range map[string]bool{`{"rows": 1}`: true, `{"command": ["sh"]}`: false} {
		_, err := o.TriggerBy(t.Context(), storage.Action{Actor: "tom"},
			storage.TriggerRequest{Job: "j", Params: json.RawMessage(params)},
			func(context.Context, storage.Action, storage.TriggerRequest) (storage.Triggered,
				error) {
				if !reached {
					t.Errorf("%s reached the store", params)
				}
				return storage.Triggered{}, nil
			})
		if (err == nil) != reached {
			t.Errorf("%s: got %v, want it refused: %v", params, err, !reached)
		}
	}
}
