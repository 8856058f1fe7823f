package locking_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
	"github.com/holdfast-dev/holdfast/retry"
)

// TestInterruptedTryWithoutGrantsNamesTheBlocker lets the deadline pass during the second try.
func TestInterruptedTryWithoutGrantsNamesTheBlocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		lock(t, newLocker(t, backend, locking.Options{}), "a")
		locker := newLocker(t, slowReads{backend, 300 * time.Millisecond}, locking.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := locker.Acquire(ctx, locking.Owner{}, exclusive(t, "a"),
			retry.Policy{Attempts: 10, Delay: 100 * time.Millisecond})
		var held *locking.HeldError
		var exhausted *retry.ExhaustedError
		if !errors.As(err, &held) || held.Holder.Job != "job" || !errors.As(err, &exhausted) ||
			exhausted.Attempts != 2 || exhausted.Waited != 500*time.Millisecond ||
			!errors.Is(err, context.DeadlineExceeded) || errors.Is(err, locking.ErrUnavailable) {
			t.Errorf("got %v, want the holder and the end of the context", err)
		}
	})
}
