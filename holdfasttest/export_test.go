package holdfasttest

import "testing"

// On returns the scheduler with another test to fail.
func On(s *Scheduler, t testing.TB) *Scheduler {
	other := *s
	other.t = t
	return &other
}
