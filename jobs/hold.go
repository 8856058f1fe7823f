package jobs

import "context"

// stepAside waits, for as long as an operator keeps this replica from starting
// it, with a firing that has passed its gate and of which the store has no row:
// no other replica begins it. It reports whether to try again. A drained replica
// writes it down for others to adopt, who may start it at once; what was paused
// for too long is the misfire policy's.
func (f *firing) stepAside(stop context.Context) bool {
	for {
		more := f.idles(stop, f.pace.controlState)
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
			f.leave(&blockage{reason: ReasonShutdown,
				detail: "left by " + f.replica + ", which is drained"})
			return false
		}
		return f.takeUp(stop)
	}
}
