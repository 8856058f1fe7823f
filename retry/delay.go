package retry

import (
	"math"
	"math/rand/v2"
	"time"
)

// The reverse exponential backoff is max(floor, ceiling/n) for n of 1 to
// period, and then starts over.
const (
	reverseFloor   = 10 * time.Millisecond
	reverseCeiling = 1024 * time.Millisecond
	reversePeriod  = 15
)

// After returns the delay before the next try of an operation. failures is the number of failed
// tries, at least 1, and waited is the time since the first try began. After returns false if the
// policy is exhausted. It is Series.Next for callers that count failures themselves.
func (p Policy) After(failures int, waited time.Duration) (delay time.Duration, ok bool) {
	return p.after(failures, waited, rand.Float64)
}

func (p Policy) after(failures int, waited time.Duration,
	random func() float64) (delay time.Duration, ok bool) {
	failures = max(failures, 1)
	if !p.allows(failures) {
		return 0, false
	}
	delay = p.jittered(p.delay(failures), random)
	if p.Elapsed > 0 {
		left := p.Elapsed - waited
		return min(delay, max(left, 0)), left > 0
	}
	return delay, true
}

// delay returns how long to wait after so many failures (from 1), before jitter.
func (p Policy) delay(failures int) time.Duration {
	var d time.Duration
	switch p.Backoff {
	case Exponential:
		d = doubled(p.Delay, failures-1)
	case ReverseExponential:
		// The 15th of each round, where n mod 15 is 0, divides by 15.
		n := (failures-1)%reversePeriod + 1
		d = max(reverseFloor, reverseCeiling/time.Duration(n))
	default:
		d = p.Delay
	}
	if p.MaxDelay > 0 {
		d = min(d, p.MaxDelay)
	}
	return d
}

// doubled returns d·2ⁿ, or the largest duration where that overflows.
func doubled(d time.Duration, n int) time.Duration {
	if d <= 0 {
		return 0
	}
	if n >= 63 || d > math.MaxInt64>>n {
		return math.MaxInt64
	}
	return d << n
}

// jittered takes a random part of up to p.Jitter off the delay. random is
// uniform in [0, 1).
func (p Policy) jittered(d time.Duration, random func() float64) time.Duration {
	if p.Jitter <= 0 || d <= 0 {
		return d
	}
	return d - min(d, time.Duration(float64(d)*min(p.Jitter, 1)*random()))
}
