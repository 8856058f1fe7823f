package engine

import "time"

// SlowDown sets how seldom the replica adopts waiting runs and checks misfires, so that a
// simulation of a long time is fast.
func (s *Scheduler) SlowDown(adopt, misfires time.Duration) {
	*s.intervals = pollIntervals{sleep: misfires, adopt: adopt, misfires: misfires, sweep: misfires,
		lists: misfires, controlState: adopt}
}
