package operations

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
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
