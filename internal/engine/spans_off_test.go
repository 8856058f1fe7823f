package engine

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
)

func TestUntracedFiringAllocatesNothing(t *testing.T) {
	f, clock := &firing{}, &clusterClock{}
	ctx := t.Context()
	found := &refusal{reason: reasons.LockHeld, blocker: &jobs.Blocker{Resource: "public/orders"}}
	if allocated := testing.AllocsPerRun(100, func() {
		startSpans(nil, f, clock)
		begun := f.spans.now()
		f.spans.step("claim", begun, nil)
		f.spans.locked(begun, found)
		f.spans.waited(begun, found)
		f.spans.asked(begun, 7, nil)
		traced, leave := f.spans.handler(ctx, 7)
		leave(verdict{state: jobs.Succeeded})
		if traced != ctx {
			t.Error("the handler is given another context")
		}
		f.spans.finished(begun, true)
		f.spans.ended(jobs.Succeeded, "", nil)
		f.spans.next()
		f.spans.finish()
	}); allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
	if !f.spans.now().Equal(time.Time{}) {
		t.Error("it asks for the time")
	}
}
