package configs

import (
	"time"

	"github.com/holdfast-dev/holdfast/retry"
)

// Wait is a wait policy: how long a firing retries held resources, and how long it blocks younger
// firings meanwhile.
type Wait struct {
	Attempts int
	Delay    time.Duration
	MaxDelay time.Duration
	Elapsed  time.Duration
	Backoff  retry.Backoff
	Jitter   float64
	// Reserve is how long younger conflicting firings wait behind a waiting firing; 0: they do not.
	Reserve time.Duration `min:"0s" max:"24h"`
}

// Policy returns the retry policy.
func (w Wait) Policy() retry.Policy {
	return retry.Policy{
		Attempts: w.Attempts, Delay: w.Delay, MaxDelay: w.MaxDelay, Elapsed: w.Elapsed,
		Backoff: w.Backoff,
		Jitter:  w.Jitter,
	}
}
