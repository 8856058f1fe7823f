package locking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/retry"
)

const (
	removeTimeout = 3 * time.Second // for all of a lock's entries together
	sweepTimeout  = 3 * time.Second // for each look for strays
)

// removeAll removes the entries, the last first, if they are still ours. It
// goes on when ctx has ended, and after an error. Of an entry that was no longer
// ours it returns a *LostError; one that could not be removed becomes a stray.
func (l *Locker) removeAll(ctx context.Context, entries []entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	policy := retry.Policy{Attempts: 3, Delay: 50 * time.Millisecond, Backoff: retry.Exponential, Jitter: 0.5}
	var errs []error
	for _, e := range slices.Backward(entries) {
		err := l.remove(ctx, e, policy)
		failed := err != nil && asLost(err) == nil
		if failed {
			policy = retry.Policy{} // the others don't wait for the same backend again
		}
		l.giveUp(e, failed)
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// remove removes one entry.
func (l *Locker) remove(ctx context.Context, e entry, policy retry.Policy) error {
	unclear := false
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		err := l.backend.Delete(ctx, e.key, e.value)
		if unclear && (errors.Is(err, ErrMissing) || errors.Is(err, ErrNotOwner)) {
			return nil // an earlier try took effect, and its reply was lost
		}
		unclear = unclear || errors.Is(err, ErrUnclear)
		return err
	}, retry.If(func(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnclear) }))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrMissing):
		return &LostError{Resource: e.resource, Reason: LossVanished}
	case errors.Is(err, ErrNotOwner):
		return &LostError{Resource: e.resource, Reason: LossTaken, Holder: l.holderOf(ctx, e.resource)}
	}
	return fmt.Errorf("release of %s: %w", e.resource, err)
}

// holderOf returns who has a resource now, as far as that can be read.
func (l *Locker) holderOf(ctx context.Context, resource Resource) Holder {
	held, err := l.Inspect(ctx, []Resource{resource})
	if err != nil {
		return Holder{}
	}
	return held[resource]
}
