// Package sleep waits until a time has passed or a context has ended.
//
// Neither function lets a goroutine receive from a timer that has fired already. Inside a bubble of
// testing/synctest, two goroutines that do so at the same moment crash the race detector of Go 1.26
// (https://go.dev/issue/78156).
package sleep

import (
	"context"
	"time"
)

// For returns nil after d, or the cause of ctx as soon as ctx has ended. If d is not positive, it
// returns at once.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// Timer returns a timer for a select with other channels. It fires after d, which counts as a
// nanosecond if it is shorter.
func Timer(d time.Duration) *time.Timer { return time.NewTimer(max(d, time.Nanosecond)) }
