package configs

import (
	"time"

	"github.com/holdfast-dev/holdfast/retry"
)

// Wait is a wait policy: how long a firing tries for held resources, and for how
// long it reserves its place before younger firings meanwhile.
type Wait struct {
	Attempts int
	Delay    time.Duration
	MaxDelay time.Duration
	Elapsed  time.Duration
	Backoff  retry.Backoff
	Jitter   float64
	// Reserve is how long younger firings that conflict wait behind a firing that
	// waits; 0 means that they never do.
	Reserve time.Duration `min:"0s" max:"24h"`
}

// Policy returns when a firing tries again.
func (w Wait) Policy() retry.Policy {
	return retry.Policy{
		Attempts: w.Attempts, Delay: w.Delay, MaxDelay: w.MaxDelay, Elapsed: w.Elapsed,
		Backoff: w.Backoff,
		Jitter:  w.Jitter,
	}
}
