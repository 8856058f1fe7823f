package engine

import "time"

// SlowDown sets how seldom the replica adopts waiting runs and checks misfires, so that a
// simulation of a long time is fast.
func (s *Scheduler) SlowDown(adopt, misfires time.Duration) {
	s.engine.pollIntervals = pollIntervals{sleep: misfires, adopt: adopt, misfires: misfires, sweep: misfires,
		lists: misfires, controlState: adopt}
	s.engine.controlState.every = adopt
}
