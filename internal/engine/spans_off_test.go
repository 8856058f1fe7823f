package engine

import (
	"github.com/holdfast-dev/holdfast/jobs"
	"testing"
	"time"
)

// TestUntracedFiringAllocatesNothing: where nothing is traced, a firing's life has
// what it had before there were traces.
func TestUntracedFiringAllocatesNothing(t *testing.T) {
	f := &firing{engine: &engine{}}
	ctx := t.Context()
	found := &refusal{reason: jobs.ReasonLockHeld, blocker: &jobs.Blocker{Resource: "public/orders"}}
	if allocated := testing.AllocsPerRun(100, func() {
		f.startSpans()
		begun := f.runSpans.now()
		f.runSpans.step("claim", begun, nil)
		f.runSpans.locked(begun, found)
		f.runSpans.waited(begun, found)
		f.runSpans.asked(begun, 7, nil)
		traced, leave := f.runSpans.handler(ctx, 7)
		leave(verdict{state: jobs.Succeeded})
		if traced != ctx {
			t.Error("the handler is given another context")
		}
		f.runSpans.finished(begun, true)
		f.runSpans.ended(jobs.Succeeded, "", nil)
		f.runSpans.next()
		f.runSpans.finish()
	}); allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
	if !f.runSpans.now().Equal(time.Time{}) {
		t.Error("it asks for the time")
	}
}
