package jobs

import "time"

// SlowDown has the replica look as seldom as that for waiting runs, and for scheduled times
// that nobody started; before Run.
func (s *Scheduler) SlowDown(adopt, misfires time.Duration) {
	s.engine.pace = pace{sleep: misfires, adopt: adopt, misfires: misfires, sweep: misfires,
		lists: misfires, controlState: adopt}
	s.engine.controlState.every = adopt
}
