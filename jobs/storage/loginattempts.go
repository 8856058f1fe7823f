package storage

import (
	"context"
	"time"
)

// LoginAttempts counts failures by key within windows, such as failed sign-ins. The counts of a
// store hold for all replicas. Methods may be called concurrently.
type LoginAttempts interface {
	// CountFailures returns the failures of each key, in the order of the keys.
	CountFailures(ctx context.Context, keys ...string) ([]Failures, error)
	// AddFailure counts one more failure of each key. The keys must differ. The first failure opens
	// a window; at its end all failures of the key are deleted.
	AddFailure(ctx context.Context, window time.Duration, keys ...string) error
}

// Failures are the failures of one key within its window.
type Failures struct {
	Count int
	Left  time.Duration // until the window ends; 0 if there is no failure
}
