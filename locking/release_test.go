package locking_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/locking"
)

// inUse are grants whose claims can be in use by open transactions.
type inUse struct {
	locking.Grants
	mu     sync.Mutex
	tokens []locking.Token
}

// set replaces the claims in use.
func (u *inUse) set(tokens ...locking.Token) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tokens = tokens
}

func (u *inUse) Release(ctx context.Context, tokens []locking.Token) (
	[]locking.ReleaseResult, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	free := slices.DeleteFunc(slices.Clone(tokens), func(t locking.Token) bool {
		return slices.Contains(u.tokens, t)
	})
	released, err := u.Grants.Release(ctx, free)
	if err != nil {
		return nil, err
	}
	results := make([]locking.ReleaseResult, len(tokens))
	for i, token := range tokens {
		results[i] = locking.ReleaseInUse
		if n := slices.Index(free, token); n >= 0 {
			results[i] = released[n]
		}
	}
	return results, nil
}

// TestLocksAreReleasedBesideClaimsInUse releases locks in one call. Two of their claims are in use.
// Later one of the two is not used any more. A heartbeat then releases it beside the other one.
func TestLocksAreReleasedBesideClaimsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuo()
		grants := &inUse{Grants: d.stores.grants}
		d.grants = lockingtest.NewFaultyGrants(grants)
		locker := d.start(t, "a")
		acquire := func(name string) *locking.Lock {
			lock, err := locker.TryAcquire(t.Context(), locking.Owner{}, exclusive(t, name))
			if err != nil {
				t.Fatal(err)
			}
			return lock
		}
		busy, later := acquire("busy"), acquire("later")
		grants.set(busy.Token(), later.Token())
		locks := []*locking.Lock{busy, later}
		for i := range 40 {
			locks = append(locks, acquire(fmt.Sprint(i)))
		}
		errs := make([]error, len(locks))
		var all sync.WaitGroup
		for i, lock := range locks {
			all.Go(func() { errs[i] = lock.Release(t.Context()) })
		}
		all.Wait()
		if err := errors.Join(errs[2:]...); err != nil {
			t.Errorf("locks beside two that are in use: %v", err)
		}
		for _, err := range errs[:2] {
			if !errors.Is(err, locking.ErrUnavailable) {
				t.Errorf("release of a lock in use: got %v, want ErrUnavailable", err)
			}
		}

		grants.set(busy.Token())
		time.Sleep(ttl) // three heartbeats
		synctest.Wait()
		if _, err := locker.TryAcquire(t.Context(), locking.Owner{},
			exclusive(t, "later")); err != nil {
			t.Errorf("lock that is not in use any more: %v", err)
		}
		if _, err := locker.TryAcquire(t.Context(), locking.Owner{},
			exclusive(t, "busy")); !errors.Is(err, locking.ErrHeld) {
			t.Errorf("lock in use: got %v, want ErrHeld", err)
		}
	})
}
