package storage

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// TestHashDependsOnHooks checks that a definition's hash depends on its webhooks but not on their
// order. The hash of a job without webhooks must not change.
func TestHashDependsOnHooks(t *testing.T) {
	hash := func(hooks ...jobs.Hook) string {
		t.Helper()
		d, err := Define(jobs.Job{Name: "job", Schedule: schedule.Schedule{}, Hooks: hooks}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(d.Hooks, sortedHooks(hooks)) {
			t.Errorf("hooks %v, want %v", d.Hooks, hooks)
		}
		return d.Hash
	}
	a, b := jobs.Hook{Webhook: "w", State: jobs.Failed}, jobs.Hook{Webhook: "w", State: jobs.Lost}
	if hash() != hash([]jobs.Hook{}...) || hash() == hash(a) || hash(a) == hash(b) ||
		hash(a) == hash(a, b) {
		t.Error("hashes of different webhooks: got equal ones, want different ones")
	}
	if hash(a, b) != hash(b, a) || hash(a) != hash(a, a) {
		t.Error("hashes of the same webhooks: got different ones, want equal ones")
	}
}
