package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/fleet"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// locker locks the paths of one customer after another.
type locker struct {
	*fleet.Member
	timeout time.Duration // how long a request waits for paths that are held
}

// lockPaths locks the paths of a customer and all beneath them, all or none. It
// waits while one is held, and then returns an error that wraps
// locking.ErrHeld and says who holds what.
func (l *locker) lockPaths(ctx context.Context, customer string,
	paths ...string) (*locking.Lock, error) {
	requests := make([]locking.Request, len(paths))
	for i, path := range paths {
		resource, err := resourceOf(customer, path)
		if err != nil {
			return nil, err
		}
		requests[i] = locking.Request{Resource: resource, Mode: locking.Exclusive}
	}
	wait := retry.Policy{Delay: 5 * time.Millisecond, MaxDelay: 80 * time.Millisecond,
		Backoff: retry.Exponential, Elapsed: l.timeout, Jitter: 0.5}
	return l.Locker.Acquire(ctx, l.Owner("customer "+customer), requests, wait)
}

// resourceOf is what stands for a customer's path: the same for all its
// spellings.
func resourceOf(customer, path string) (locking.Resource, error) {
	if !strings.HasPrefix(path, "/") {
		return locking.Resource{}, fmt.Errorf("%w: found %q, expected a path from the root, such "+
			"as /shared", locking.ErrBadName, path)
	}
	return locking.Path("customers/" + customer + strings.ToLower(path))
}
