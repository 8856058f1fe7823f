package locking

import (
	"context"
	"errors"
	"fmt"
)

// Clear removes the advisory locks of a dead run on the requests' resources. The caller must know
// that the run's claim is gone. run must not be empty: locks of programs have no run. If a server
// does not reply, Clear goes on with the other servers, and returns the error. A Locker with Grants
// clears by itself.
func (l *Locker) Clear(ctx context.Context, requests []Request, run string) error {
	locks, err := l.wantedLocks(requests)
	if err != nil {
		return err
	}
	left := make([]remnant, len(locks))
	for i, lock := range locks {
		left[i] = remnant{lock, func(c content) bool { return c.Run == clean(run) }}
	}
	if err := l.clear(ctx, left); err != nil {
		return fmt.Errorf("locks of run %s: %w", run, err)
	}
	return nil
}

// ClearReleased is Clear for the locks that a sweep released.
func (l *Locker) ClearReleased(ctx context.Context, released []Released) error {
	var left []remnant
	for _, r := range released {
		locks, err := l.wantedLocks(r.Requests)
		if err != nil {
			return err
		}
		for _, lock := range locks {
			left = append(left, remnant{lock, func(c content) bool {
				return c.Lock == r.ID.String()
			}})
		}
	}
	if err := l.clear(ctx, left); err != nil {
		return fmt.Errorf("locks of dead sessions: %w", err)
	}
	return nil
}

// remnant is an advisory lock of a dead run, valid while it has this content.
type remnant struct {
	advisoryLock // without nonce and value
	matches      func(content) bool
}

func (l *Locker) clear(ctx context.Context, left []remnant) error {
	if len(left) == 0 {
		return nil
	}
	keys := make([]string, len(left))
	for i, r := range left {
		keys[i] = r.key
	}
	found, err := l.eachServer(keys, func(mine []string) (map[string][]byte, error) {
		return l.backend.Get(ctx, mine...)
	})
	problems := []error{err}
	for i, key := range keys {
		c, ours := decode(found[key], left[i].resource.Key())
		if !ours || !left[i].matches(c) {
			continue
		}
		err := l.backend.Delete(ctx, key, found[key])
		if err != nil && !errors.Is(err, ErrMissing) && !errors.Is(err, ErrNotOwner) {
			problems = append(problems, fmt.Errorf("lock of %s: %w", left[i].resource, err))
		}
	}
	return errors.Join(problems...)
}
