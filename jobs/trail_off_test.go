package jobs

import (
	"testing"
	"time"
)

// TestUntracedFiringAllocatesNothing: where nothing is traced, a firing's life has
// what it had before there were traces.
func TestUntracedFiringAllocatesNothing(t *testing.T) {
	f := &firing{engine: &engine{}}
	ctx := t.Context()
	found := &blockage{reason: ReasonLockHeld, blocker: &Blocker{Resource: "public/orders"}}
	if allocated := testing.AllocsPerRun(100, func() {
		f.follow()
		begun := f.trail.now()
		f.trail.step("claim", begun, nil)
		f.trail.locked(begun, found)
		f.trail.waited(begun, found)
		f.trail.asked(begun, 7, nil)
		traced, leave := f.trail.handler(ctx, 7)
		leave(verdict{state: Succeeded})
		if traced != ctx {
			t.Error("the handler is given another context")
		}
		f.trail.finished(begun, true)
		f.trail.ended(Succeeded, "", nil)
		f.trail.next()
		f.trail.finish()
	}); allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
	if !f.trail.now().Equal(time.Time{}) {
		t.Error("it asks for the time")
	}
}
