package retry_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/retry"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		policy retry.Policy
		want   []string // what the error must name; none: valid
	}{
		{"zero", retry.Policy{}, nil},
		{"full", retry.Policy{Attempts: 5, Delay: time.Second, MaxDelay: time.Minute, Elapsed: time.Hour, Backoff: retry.Exponential, Jitter: 1}, nil},
		{"by time only", retry.Policy{Elapsed: time.Minute, Backoff: retry.ReverseExponential}, nil},
		{"unknown backoff", retry.Policy{Backoff: "linear"}, []string{"backoff", "linear", "exponential"}},
		{"several mistakes", retry.Policy{Attempts: -1, Delay: -1, Jitter: 2}, []string{"attempts", "delay", "jitter"}},
		{"jitter is no number", retry.Policy{Jitter: math.NaN()}, []string{"jitter"}},
		{"delay without a limit", retry.Policy{Delay: time.Second}, []string{"limit"}},
		{"busy loop", retry.Policy{Elapsed: time.Second}, []string{"delay"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.policy.Validate()
			if (err == nil) != (len(test.want) == 0) {
				t.Fatalf("got %v", err)
			}
			for _, word := range test.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%v does not name %q", err, word)
				}
			}
		})
	}
}
