package retry

import (
	"math/rand/v2"
	"time"
)

// Series counts the failures of one operation and returns the delay before the next
// try. It is for callers that cannot use Do because they do other work meanwhile. It
// must not be used concurrently. A copy of a Series returns the same delays as the Series.
type Series struct {
	policy   Policy
	seed     uint64 // of the jitter
	start    time.Time
	failures int
}

// Start begins a series whose first try begins now. It ignores all options except
// WithSource.
func (p Policy) Start(now time.Time, options ...Option) *Series {
	s := &Series{policy: p, start: now}
	var source rand.Source
	if len(options) > 0 { // otherwise gather would allocate for nothing
		source = gather(options).source
	}
	if source != nil {
		s.seed = source.Uint64()
	} else if p.Jitter > 0 {
		s.seed = rand.Uint64()
	}
	return s
}

// Next records that a try failed at now, and returns the delay before the next one.
// It returns false if the policy is exhausted.
func (s *Series) Next(now time.Time) (delay time.Duration, ok bool) {
	s.failures++
	return s.policy.after(s.failures, s.Waited(now), s.random)
}

// random returns a number in [0, 1) for the delay after the last failure.
func (s *Series) random() float64 {
	return rand.New(rand.NewPCG(s.seed, uint64(s.failures))).Float64()
}

// Attempts returns how many tries have failed.
func (s *Series) Attempts() int { return s.failures }

// Waited returns the time from the first try to now.
func (s *Series) Waited(now time.Time) time.Duration { return now.Sub(s.start) }

// Exhausted returns the error of a series that ends at now. cause is the error of the
// last try. end is the error that prevents a further try, such as the cause of a
// context, or nil if the policy allows no further try.
func (s *Series) Exhausted(now time.Time, cause, end error) *ExhaustedError {
	return &ExhaustedError{Cause: cause, End: end, Attempts: s.failures, Waited: s.Waited(now)}
}

// allows reports whether the policy allows a try after that many.
func (p Policy) allows(tries int) bool {
	if p.Attempts > 0 {
		return tries < p.Attempts
	}
	return p.Elapsed > 0
}

// Longest returns the longest possible sum of the delays of a series without jitter, or limit if
// that is shorter.
func (p Policy) Longest(limit time.Duration) time.Duration {
	if p.Attempts <= 0 {
		return min(p.Elapsed, limit)
	}
	if p.Elapsed > 0 {
		limit = min(limit, p.Elapsed)
	}
	const counted = 10_000 // by then the delay is at its largest, or the round is over
	var waited time.Duration
	for failures := 1; failures < p.Attempts && waited < limit; failures++ {
		if failures == counted {
			return time.Duration(min(float64(waited)/(counted-1)*float64(p.Attempts-1),
				float64(limit)))
		}
		waited += min(p.delay(failures), limit)
	}
	return min(waited, limit)
}
