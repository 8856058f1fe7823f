package retry

import "time"

// Backoff is how the delay grows with the number of failures.
type Backoff string

// The backoffs.
const (
	Constant Backoff = "constant" // Delay, each time
	// Delay, doubled at each failure, at most MaxDelay
	Exponential Backoff = "exponential"
	// 1024 ms / n, regardless of Delay: the delays shrink. n is the number of failures, and starts
	// again at 1 after 15
	ReverseExponential Backoff = "reverse_exponential"
)

// Policy limits the tries of an operation and sets the delays between them. The zero
// Policy tries once. Policies are values; they may be shared and compared.
type Policy struct {
	// tries in all, the first included; 0 means no limit by count, or one try if Elapsed is 0 too
	Attempts int
	Delay    time.Duration // before the second try, before jitter
	MaxDelay time.Duration // no delay is longer; 0 means no limit
	Elapsed  time.Duration // no try begins later than this after the first; 0 means no limit
	Backoff  Backoff       // "" means Constant
	// 0 to 1: the share of each delay that is random; 1 is full jitter: between 0 and the delay
	Jitter float64
}
