package retry

import (
	"errors"
	"fmt"
	"time"
)

// Backoffs lists all backoffs.
func Backoffs() []Backoff { return []Backoff{Constant, Exponential, ReverseExponential} }

// Validate returns every mistake in the policy, joined, or nil. The zero
// Policy is valid.
func (p Policy) Validate() error {
	return errors.Join(
		p.checkBackoff(),
		notNegative("delay", p.Delay), notNegative("max_delay", p.MaxDelay),
		notNegative("elapsed", p.Elapsed),
		p.checkAttempts(), p.checkJitter(), p.checkLimits(),
	)
}

func (p Policy) checkBackoff() error {
	switch p.Backoff {
	case "", Constant, Exponential, ReverseExponential:
		return nil
	}
	return fmt.Errorf("backoff: found %q, expected one of %q", p.Backoff, Backoffs())
}

func notNegative(key string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s: found %s, expected 0 or more", key, d)
	}
	return nil
}

func (p Policy) checkAttempts() error {
	if p.Attempts < 0 {
		return fmt.Errorf("attempts: found %d, expected 0 or more", p.Attempts)
	}
	return nil
}

func (p Policy) checkJitter() error {
	if !(p.Jitter >= 0 && p.Jitter <= 1) {
		return fmt.Errorf("jitter: found %v, expected 0 to 1", p.Jitter)
	}
	return nil
}

// checkLimits refuses delays that no try would ever follow.
func (p Policy) checkLimits() error {
	waits := p.Delay > 0 || p.Backoff == ReverseExponential
	if waits && p.Attempts == 0 && p.Elapsed == 0 {
		return errors.New("attempts: a delay needs a limit, by attempts or by elapsed time")
	}
	// Without a delay only the clock would end tries that follow each other at once.
	if !waits && p.Attempts == 0 && p.Elapsed > 0 {
		return errors.New("delay: tries that only elapsed time limits need a delay above 0")
	}
	return nil
}
