package jobs

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// TestHooksAreOfTheDefinition: another webhook is another definition, another
// order is not; jobs without webhooks keep the hash that they had.
func TestHooksAreOfTheDefinition(t *testing.T) {
	hash := func(hooks ...Hook) string {
		t.Helper()
		d, err := define(Job{Name: "job", Schedule: schedule.Schedule{}, Hooks: hooks}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(d.Hooks, sortedHooks(hooks)) {
			t.Errorf("hooks %v, expected %v", d.Hooks, hooks)
		}
		return d.Hash
	}
	a, b := Hook{Webhook: "w", State: Failed}, Hook{Webhook: "w", State: Lost}
	if hash() != hash([]Hook{}...) || hash() == hash(a) || hash(a) == hash(b) ||
		hash(a) == hash(a, b) {
		t.Error("the hash does not tell webhooks apart")
	}
	if hash(a, b) != hash(b, a) || hash(a) != hash(a, a) {
		t.Error("the hash depends on how the same webhooks are written")
	}
}
