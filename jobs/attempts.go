package jobs

import (
	"context"
	"time"
)

// Attempts counts failures by key, such as sign-ins that failed, within
// windows: a store's counts hold over all replicas. Both stores have them. It is
// called concurrently.
type Attempts interface {
	// CountFailures returns the failures of each key, in their order.
	CountFailures(ctx context.Context, keys ...string) ([]Failures, error)
	// AddFailure counts one more failure of each key, all of them different. The
	// first opens a window, at whose end all failures of that key are forgotten.
	AddFailure(ctx context.Context, window time.Duration, keys ...string) error
}

// Failures are those of one key within its window.
type Failures struct {
	Count int
	Left  time.Duration // until they are forgotten; 0 where there are none
}
