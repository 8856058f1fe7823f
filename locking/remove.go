package locking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/retry"
)

const (
	removeTimeout = 3 * time.Second // for all advisory locks of a lock together
	sweepTimeout  = 3 * time.Second // for each search for strays
)

// removeAll removes the advisory locks in reverse order, if they are still ours. It
// ignores the end of ctx, and goes on after an error. It returns a *LostError for
// one that was no longer ours. What it cannot remove becomes a stray.
func (l *Locker) removeAll(ctx context.Context, advisory []advisoryLock) error {
	if len(advisory) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	errs := l.deleteAll(ctx, advisory)
	if slices.ContainsFunc(errs, failed) {
		l.removeFailed(ctx, advisory, errs)
	}
	for i, e := range advisory {
		errs[i] = l.asRemoved(ctx, e, errs[i])
		l.giveUp(e, errs[i] != nil && asLost(errs[i]) == nil)
	}
	return errors.Join(errs...)
}

// deleteAll tries once to remove the advisory locks, in reverse order. It returns an error or nil
// for each.
func (l *Locker) deleteAll(ctx context.Context, advisory []advisoryLock) []error {
	items := make([]Item, 0, len(advisory))
	for _, e := range slices.Backward(advisory) {
		items = append(items, Item{Key: e.key, Value: e.value, Version: e.version})
	}
	errs := l.backend.DeleteAll(ctx, items)
	slices.Reverse(errs)
	return errs
}

// removeFailed tries again to remove the advisory locks whose removal failed, and updates errs.
func (l *Locker) removeFailed(ctx context.Context, advisory []advisoryLock, errs []error) {
	policy := retry.Policy{Attempts: 3, Delay: 50 * time.Millisecond, Jitter: 0.5}
	for i, e := range slices.Backward(advisory) {
		if !failed(errs[i]) {
			continue
		}
		if errs[i] = l.removeAgain(ctx, e, errs[i], policy); failed(errs[i]) {
			return // the others do not wait for the same backend again
		}
	}
}

// failed reports whether the advisory lock may still exist.
func failed(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnclear) }

// removeAgain retries a removal that failed with err.
func (l *Locker) removeAgain(ctx context.Context, e advisoryLock, err error,
	policy retry.Policy) error {
	unclear := errors.Is(err, ErrUnclear)
	series := policy.Start(time.Now())
	for failed(err) {
		delay, again := series.Next(time.Now())
		if !again || sleep.For(ctx, delay) != nil {
			return err
		}
		err = l.backend.Delete(ctx, e.key, e.value)
		if unclear && (errors.Is(err, ErrMissing) || errors.Is(err, ErrNotOwner)) {
			return nil // an earlier try took effect, and its reply was lost
		}
		unclear = unclear || errors.Is(err, ErrUnclear)
	}
	return err
}

// asRemoved converts the result of a removal into the result of Release.
func (l *Locker) asRemoved(ctx context.Context, e advisoryLock, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrMissing):
		return &LostError{Resource: e.resource, Reason: LossVanished}
	case errors.Is(err, ErrNotOwner):
		return &LostError{Resource: e.resource, Reason: LossTaken,
			Holder: l.holderOf(ctx, e.resource)}
	}
	return fmt.Errorf("release of %s: %w", e.resource, err)
}

// holderOf returns the present holder of a resource, if it can be read.
func (l *Locker) holderOf(ctx context.Context, resource Resource) Holder {
	held, err := l.Inspect(ctx, []Resource{resource})
	if err != nil {
		return Holder{}
	}
	return held[resource]
}
