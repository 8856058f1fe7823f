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
		start := f.spans.now()
		f.spans.step("gate", start, nil)
		f.spans.locked(start, found)
		f.spans.waited(start, found)
		f.spans.asked(start, 7, nil)
		traced, leave := f.spans.handler(ctx, 7)
		leave(outcome{state: jobs.Succeeded})
		if traced != ctx {
			t.Error("context of the handler: got another one, want the same")
		}
		f.spans.finished(start, true)
		f.spans.ended(jobs.Succeeded, "", nil)
		f.spans.next()
		f.spans.finish()
	}); allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
	if !f.spans.now().Equal(time.Time{}) {
		t.Error("time without tracing: got a reading of the clock, want none")
	}
}
