package locking

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/internal/session"
	"github.com/holdfast-dev/holdfast/retry"
)

// Acquire retries TryAcquire by policy while a resource is held. Without requests, it returns a
// lock that excludes no other lock, as TryAcquire does. It returns the errors of TryAcquire, but
// wraps a *HeldError in a *retry.ExhaustedError. A policy must be valid: see
// retry.Policy.Validate.
//
// With Options.Grants, Acquire also retries while the grants cannot be reached or there is no
// session. Each try waits at most Options.Session.TTL for a session.
func (l *Locker) Acquire(ctx context.Context, owner Owner, requests []Request,
	policy retry.Policy) (*Lock, error) {
	if l.keeper != nil {
		return l.acquireInTurn(ctx, owner, requests, policy)
	}
	var lock *Lock
	var blocker *HeldError
	err := retry.Do(ctx, policy, func(ctx context.Context) (err error) {
		if blocker != nil {
			if still := l.stillHeld(ctx, blocker.Resource); still != nil {
				return still
			}
		}
		if lock, err = l.TryAcquire(ctx, owner, requests); err != nil && ctx.Err() != nil &&
			blocker != nil {
			err = blocker // it says more than that the try was cut short
		}
		errors.As(err, &blocker)
		return err
	}, retry.If(func(err error) bool { return errors.Is(err, ErrHeld) }))
	if err != nil {
		return nil, err
	}
	return lock, nil
}

// acquireInTurn is Acquire with Grants. All tries belong to one attempt.
func (l *Locker) acquireInTurn(ctx context.Context, owner Owner, requests []Request,
	policy retry.Policy) (*Lock, error) {
	normalized, err := Normalize(requests)
	if err != nil {
		return nil, err
	}
	a, err := l.newAttempt(owner, normalized)
	if err != nil {
		return nil, err
	}
	a.wait, a.sessionWait = true, l.options.Session.TTL
	if policy.Elapsed > 0 {
		a.sessionWait = min(a.sessionWait, policy.Elapsed)
	}
	defer a.end(ctx)
	var lock *Lock
	var refused *HeldError
	err = retry.Do(ctx, policy, func(ctx context.Context) (err error) {
		if lock, err = a.try(ctx); err != nil && ctx.Err() != nil && refused != nil {
			err = refused // it says more than that the try was cut short
		}
		errors.As(err, &refused)
		return err
	}, retry.If(worthWaiting))
	return lock, err
}

// worthWaiting reports whether an attempt may succeed later.
func worthWaiting(err error) bool {
	if errors.Is(err, session.ErrEnded) {
		return false
	}
	return errors.Is(err, ErrHeld) || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, ErrNoSession) || errors.Is(err, ErrSessionLost)
}

// stillHeld returns who holds the resource, or nil when it is free or unknown.
func (l *Locker) stillHeld(ctx context.Context, resource Resource) *HeldError {
	found, err := l.Inspect(ctx, []Resource{resource})
	if err != nil {
		return nil
	}
	if holder, isHeld := found[resource]; isHeld {
		return &HeldError{Resource: resource, Holder: holder}
	}
	return nil
}

// Inspect returns the holders that the advisory locks of the resources name. It leaves out
// resources without an advisory lock. If a server does not reply, Inspect returns no holders and an
// error that wraps ErrUnavailable.
func (l *Locker) Inspect(ctx context.Context, resources []Resource) (map[Resource]Holder, error) {
	if len(resources) == 0 {
		return nil, nil
	}
	keys := make([]string, 0, len(resources))
	for _, resource := range resources {
		keys = append(keys, keyOf(l.options.Namespace, resource.Key()))
	}
	found, err := l.backend.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	holders := make(map[Resource]Holder, len(found))
	for i, resource := range resources {
		value, exists := found[keys[i]]
		if !exists {
			continue
		}
		if holder, stray := l.read(resource, value); !stray {
			holders[resource] = holder
		}
	}
	return holders, nil
}
