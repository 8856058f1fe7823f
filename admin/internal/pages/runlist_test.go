package pages

import (
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

func TestObstacle(t *testing.T) {
	blocked := func(reason jobs.Reason, b *jobs.Blocker) storage.Record {
		return storage.Record{Job: "load", State: jobs.Waiting, Reason: reason, BlockedBy: b}
	}
	held := &jobs.Blocker{Resource: "public/orders", Holder: locking.Owner{
		Job: "rollup", Replica: "r1", Run: "7"}}
	held.Root.Holder.Job = "rollup"
	skipped := blocked(reasons.LockHeld, held)
	skipped.State = jobs.Skipped
	queued := &jobs.Blocker{Resource: "public/orders", Holder: locking.Owner{Job: "backup"},
		Waiting: true}
	queued.Root.Holder.Job = "extract"
	own := &jobs.Blocker{Resource: "job:load", Holder: locking.Owner{Job: "load"}}
	for name, test := range map[string]struct {
		run  storage.Record
		want *obstacle
	}{
		"held": {blocked(reasons.LockHeld, held), &obstacle{Resource: "public/orders",
			Job: "rollup", Run: "7", Replica: "r1"}},
		"skipped": {skipped, &obstacle{Resource: "public/orders", Over: true, Job: "rollup",
			Run: "7", Replica: "r1"}},
		"queued": {blocked(reasons.OlderWaiter, queued), &obstacle{Resource: "public/orders",
			Queued: true, Job: "backup", Root: "extract"}},
		"own":       {blocked(reasons.LockHeld, own), &obstacle{Job: "load"}},
		"timed out": {blocked(reasons.Timeout, held), nil},
		"unknown":   {blocked(reasons.LockHeld, nil), nil},
	} {
		got := newObstacle(test.run)
		if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
