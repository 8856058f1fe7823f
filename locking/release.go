package locking

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/internal/batch"
	"github.com/holdfast-dev/holdfast/retry"
)

// releasesAtOnce limits how many locks ReleaseAll releases concurrently.
const releasesAtOnce = 256

// liveLocks are the locks of a Locker that have not ended.
type liveLocks struct {
	mu  sync.Mutex
	all map[*Lock]struct{}
}

func (s *liveLocks) add(lock *Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*Lock]struct{}{}
	}
	s.all[lock] = struct{}{}
}

func (s *liveLocks) remove(lock *Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, lock)
}

func (s *liveLocks) list() []*Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Lock, 0, len(s.all))
	for lock := range s.all {
		list = append(list, lock)
	}
	return list
}

// ReleaseAll releases every lock that is held when it is called.
func (l *Locker) ReleaseAll(ctx context.Context) error {
	locks := l.locks.list()
	problems := make([]error, len(locks))
	var all errgroup.Group
	all.SetLimit(releasesAtOnce)
	for i, lock := range locks {
		all.Go(func() error {
			problems[i] = lock.Release(ctx)
			return nil
		})
	}
	_ = all.Wait() // errors are collected per lock
	return errors.Join(problems...)
}

func newReleases(grants Grants) *batch.Batch[Token, ReleaseResult] {
	return batch.New(batch.Options[Token, ReleaseResult]{
		Send: grants.Release, Timeout: callTimeout, Most: MaxGrants,
		Whole: func(error, time.Duration) bool { return true },
	})
}

// errInUse says that a claim was not released because an open transaction relies on it.
var errInUse = fmt.Errorf("%w: an open transaction relies on the claim", ErrUnavailable)

// inUseRetries is how often a release looks whether the transaction has ended. Only the caller
// waits, not the other releases of its batch.
func inUseRetries() retry.Policy {
	return retry.Policy{Elapsed: time.Second, Delay: 10 * time.Millisecond,
		MaxDelay: 100 * time.Millisecond, Backoff: retry.Exponential, Jitter: 0.5}
}

// releaseClaim releases the claim and then removes the advisory locks. In this
// order, a caller that finds them gone is not refused. If the release fails, the
// next heartbeat releases the claim.
func (k *Lock) releaseClaim(ctx context.Context) error {
	defer k.locker.undo(ctx, k.locker.present(k.advisory))
	defer k.liveSession.Data.remove(k.token)
	if k.loss() != nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	var result ReleaseResult
	err := retry.Do(bounded, inUseRetries(), func(ctx context.Context) (err error) {
		if result, err = k.locker.releases.Ask(ctx, k.token); result == ReleaseInUse {
			err = errInUse
		}
		return err
	}, retry.If(func(err error) bool { return errors.Is(err, errInUse) }))
	switch {
	case err != nil:
		return fmt.Errorf("release of a lock: %w", err)
	case result == ReleaseDone:
		return nil
	case k.liveSession.Context().Err() != nil:
		return &LostError{Reason: LossSession, Err: context.Cause(k.liveSession.Context())}
	}
	return &LostError{Reason: LossClaim,
		Err: fmt.Errorf("%w: token %d", ErrSuperseded, k.token)}
}

// drop detaches the lock's advisory locks for removal by the caller.
func (k *Lock) drop() []advisoryLock {
	k.work <- struct{}{}
	defer func() { <-k.work }()
	advisory := k.locker.present(k.advisory)
	k.advisory = nil
	return advisory
}
