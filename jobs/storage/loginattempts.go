package storage

import (
	"context"
	"time"
)

// LoginAttempts counts failed sign-ins by key, for all replicas.
type LoginAttempts interface {
	// CountFailures returns the failures of each key, in the order of the keys.
	CountFailures(ctx context.Context, keys ...string) ([]Failures, error)
	// AddFailure counts one more failure of each key. The keys must differ. The first failure of a
	// key opens a window. At the end of the window, the count begins at 0 again.
	AddFailure(ctx context.Context, window time.Duration, keys ...string) error
}

// Failures are the failures of a key in its window.
type Failures struct {
	Count int
	Left  time.Duration // until the window ends; 0 if there is no failure
}
