package locks

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var night = time.Date(2026, 3, 14, 2, 30, 0, 0, time.UTC)

// waiter is a run that has waited for so long.
func waiter(n byte, job string, since time.Duration, b *jobs.Blocker) storage.Record {
	begin := night.Add(-since)
	return storage.Record{ID: uuid.UUID{15: n}, Job: job, State: jobs.Waiting, CreatedAt: begin,
		WaitSince: begin, BlockedBy: b, Reason: reasons.LockHeld}
}

// TestLargestWaitTreeIsFirst checks that the page begins with the holder for which most runs wait.
func TestLargestWaitTreeIsFirst(t *testing.T) {
	var waiting []storage.Record
	for i, holder := range []string{"old", "busy", "busy"} {
		waiting = append(waiting, storage.Record{ID: [16]byte{byte(i + 1)}, Job: "job",
			State: jobs.Waiting, BlockedBy: &jobs.Blocker{Resource: "t",
				Holder: locking.Owner{Job: holder, Run: holder, Replica: "a"}}})
	}
	var got []string
	for _, tree := range NewWaitTrees(waiting, HeldLocks{}) {
		got = append(got, fmt.Sprint(tree.Holder.Job, " ", tree.Runs))
	}
	if want := "[busy 2 old 1]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestChainOfWaits follows waits to the run that blocks all of them, and checks that a cycle ends
// the search.
func TestChainOfWaits(t *testing.T) {
	owner := func(r storage.Record) locking.Owner {
		return locking.Owner{Job: r.Job, Run: r.ID.String()}
	}
	a, b := waiter(1, "a", time.Hour, nil), waiter(2, "b", time.Hour, nil)
	a.BlockedBy = &jobs.Blocker{Resource: "x", Waiting: true, Holder: owner(b)}
	b.BlockedBy = &jobs.Blocker{Resource: "y", Waiting: true, Holder: owner(a)}
	if got := NewChains([]storage.Record{a, b}).Root(a).Name(); got != "b" && got != "a" {
		t.Errorf("the root of a circle is %q", got)
	}
	a.BlockedBy.Root = jobs.Root{Resource: "z", Holder: locking.Owner{Job: "c"}}
	if got := NewChains([]storage.Record{a}).Root(a); got.Name() != "c" || got.Resource != "z" {
		t.Errorf("the recorded root is %+v", got)
	}
	b.BlockedBy = &jobs.Blocker{Resource: "y", Holder: locking.Owner{Job: "d"}}
	if got := NewChains([]storage.Record{a, b}).Root(a); got.Name() != "d" || got.Resource != "y" {
		t.Errorf("the current root is %+v, want that of the blocker", got)
	}
}

// TestSharedLockHasOneTree checks waiters that name different holders of one semaphore. They are in
// one tree, which names all holders, whichever of them a waiter named last.
func TestSharedLockHasOneTree(t *testing.T) {
	api, err := locking.Slot("api")
	if err != nil {
		t.Fatal(err)
	}
	slot := func(job string, since time.Duration) Lock {
		return Lock{Resource: api.String(), Mode: locking.Slotted, Slots: 2,
			Holder: locking.Owner{Job: job, Run: job, Replica: "a"}, Since: night.Add(-since)}
	}
	old, young := slot("old", time.Minute), slot("young", time.Second)
	held := NewHeldLocks(Set{Locks: []Lock{young, old}})
	var waiting []storage.Record
	for n, holder := range []Lock{young, old, young} {
		waiting = append(waiting, waiter(byte(n+1), "job", time.Second,
			&jobs.Blocker{Resource: api.String(), Holder: holder.Holder}))
	}
	trees := NewWaitTrees(waiting, held)
	if len(trees) != 1 || trees[0].Holder.Job != "old" || trees[0].Runs != 3 ||
		trees[0].Slots() != 2 || len(trees[0].OthersShown()) != 1 ||
		trees[0].Others[0].Holder.Job != "young" || trees[0].OthersMore() != 0 {
		t.Errorf("got %d trees, the first is %+v", len(trees), trees[0])
	}
}
