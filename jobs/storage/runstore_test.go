package storage

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/locking"
)

// TestLocksOf checks that slots are not fenced.
func TestLocksOf(t *testing.T) {
	slot, err := locking.Slot("api")
	if err != nil {
		t.Fatal(err)
	}
	job, err := locking.Job("rollup")
	if err != nil {
		t.Fatal(err)
	}
	got := LocksOf([]locking.Request{{Resource: slot, Mode: locking.Slotted, Slots: 2},
		{Resource: job, Mode: locking.Exclusive}})
	if !slices.Equal(got, []Lock{{Key: "job:rollup"}}) {
		t.Errorf("got %v, want only the name of the job", got)
	}
}
