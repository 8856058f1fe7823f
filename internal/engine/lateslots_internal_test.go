package engine

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// duringAdopt is a store without waiting runs. It calls the function while it looks for them.
type duringAdopt func()

func (d duringAdopt) Adopt(context.Context, uuid.UUID, storage.Adoption) ([]storage.Record, error) {
	d()
	return nil, nil
}

// TestSlotThatIsFreedDuringAnAdoption frees the only slot for late runs while an adoption looks for
// waiting runs without room for late ones. Another adoption must follow at once.
func TestSlotThatIsFreedDuringAnAdoption(t *testing.T) {
	adopt := make(chan struct{}, 1)
	r := newReady("replica", 1)
	r.adopt = adopt
	r.push(late(inGroup("running", "", 0)))
	running := popped(t, r)
	a := &adopter{workers: newWorkers(4), ready: r, active: newActive(),
		intervals: &pollIntervals{}, store: duringAdopt(running.slots.giveBackLate)}
	if _, err := a.adoptOf(t.Context(), &liveSession{}, nil, 4, 0); err != nil {
		t.Fatal(err)
	}
	select {
	case <-adopt:
	default:
		t.Error("the slot is free, and nothing wakes the adoption")
	}
}
