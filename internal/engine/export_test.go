package engine

import "time"

// SlowDown sets how often the replica adopts waiting runs and checks misfires. Long intervals make
// the simulation of a long time fast.
func (s *Scheduler) SlowDown(adopt, misfires time.Duration) {
	*s.intervals = pollIntervals{sleep: misfires, adopt: adopt, misfires: misfires, sweep: misfires,
		seal: misfires, locks: adopt, controlState: adopt}
}
