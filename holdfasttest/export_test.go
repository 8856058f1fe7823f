package holdfasttest

import (
	"testing"
	"time"
)

// On returns the scheduler with another test to fail.
func On(s *Scheduler, t testing.TB) *Scheduler {
	other := *s
	other.t = t
	return &other
}

// Limited returns the scheduler with another test to fail, and a shorter limit of waits.
func Limited(s *Scheduler, t testing.TB, limit time.Duration) *Scheduler {
	other := On(s, t)
	other.limit = limit
	return other
}
