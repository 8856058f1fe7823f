package engine

import (
	"context"
	"github.com/holdfast-dev/holdfast/jobs"
)

// awaitOperator waits while an operator keeps this replica from starting a firing that has passed
// its gate. The store has no row of the firing, so no other replica begins it. It reports whether
// to try again. A drained replica records the firing for other replicas to adopt. After a long
// pause the misfire policy decides.
func (f *firing) awaitOperator(stop context.Context) bool {
	for {
		more := f.idles(stop, f.pollIntervals.controlState)
		_, paused := f.controlState.paused(f.entry.Name, f.entry.Group)
		switch {
		case !more:
			if !paused {
				f.leave(nil)
			}
			return false
		case f.entry.overdue(f.firing.ScheduledAt, f.clock.now()),
			!f.controlState.table.has(f.entry):
			return false
		case paused:
			continue
		case f.controlState.draining():
			f.leave(&refusal{reason: jobs.ReasonShutdown,
				detail: "replica " + f.replica + " was drained before it started the run"})
			return false
		}
		return f.takeUp(stop)
	}
}
