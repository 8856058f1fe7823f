package locking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/session"
	"github.com/holdfast-dev/holdfast/internal/sleep"
)

const (
	defaultTTL = 15 * time.Second
	minTTL     = time.Second
	maxTTL     = 24 * time.Hour
)

// liveSession is one session of a Locker.
type liveSession = session.Session[*sessionLocks]

func (o *Options) checkSession() error {
	if o.Session.Replica == "" {
		return errors.New("session: the replica has no name")
	}
	if o.Session.TTL == 0 {
		o.Session.TTL = defaultTTL
	}
	if o.Session.TTL < minTTL || o.Session.TTL > maxTTL {
		return fmt.Errorf("session's TTL: found %s, expected %s to %s", o.Session.TTL, minTTL,
			maxTTL)
	}
	return nil
}

func (l *Locker) newKeeper() *session.Keeper[*sessionLocks] {
	return session.New(session.Options[*sessionLocks]{
		TTL: l.options.Session.TTL, Interval: l.options.Session.TTL / 3, Log: l.options.Log,
		Open: l.openSession, Heartbeat: l.heartbeat, End: l.options.Grants.EndSession,
		Prepare: func(ctx context.Context, _ *liveSession) error {
			// A long sweep would use up the session that has just been opened.
			ctx, cancel := context.WithTimeout(ctx, l.options.Session.TTL/3)
			defer cancel()
			l.sweepGrants(ctx)
			return nil
		},
		NewData: func(s *liveSession) *sessionLocks {
			return newSessionLocks(l.options.Grants, s.ID)
		},
		Lost: func(s *liveSession, cause error) { s.Data.lose(cause) },
	})
}

// Ready waits until the Locker has a session. Without Grants it returns nil at once. It returns an
// error that wraps ErrNoSession when ctx ends or Run has returned.
func (l *Locker) Ready(ctx context.Context) error {
	if l.keeper == nil {
		return nil
	}
	_, err := l.keeper.Wait(ctx)
	return err
}

// openSession opens a session. Only the first one ends earlier sessions of this
// replica's name. Otherwise two replicas of one name would keep ending each
// other's sessions.
func (l *Locker) openSession(ctx context.Context, id uuid.UUID, first bool) error {
	s := l.options.Session
	s.ID, s.ReplaceEarlier = id, s.ReplaceEarlier && first
	return l.options.Grants.OpenSession(ctx, s)
}

// heartbeat renews the session and compares its claims with those of this replica.
func (l *Locker) heartbeat(ctx context.Context, s *liveSession) (
	apply func(context.Context) error, err error) {
	known := s.Data.locks()
	reply, err := l.options.Grants.Heartbeat(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		for token, lock := range known {
			if _, exists := reply.Claims[token]; !exists {
				lock.lose(&LostError{Reason: LossClaim,
					Err: fmt.Errorf("%w: token %d", ErrSuperseded, token)})
			}
		}
		if err := l.releaseAbandoned(ctx, s, reply); err != nil {
			return fmt.Errorf("release claims of abandoned locks: %w", err)
		}
		return nil
	}, nil
}

func (l *Locker) releaseAbandoned(ctx context.Context, s *liveSession, reply HeartbeatReply) error {
	claims, waits := s.Data.abandoned(reply)
	var problems []error
	for len(claims) > 0 {
		n := min(len(claims), MaxGrants)
		results, err := l.options.Grants.Release(ctx, claims[:n])
		if slices.Contains(results, ReleaseInUse) {
			err = errInUse
		}
		problems, claims = append(problems, err), claims[n:]
	}
	for len(waits) > 0 {
		n := min(len(waits), MaxGrants)
		problems = append(problems, l.options.Grants.Withdraw(ctx, s.ID, waits[:n]))
		waits = waits[n:]
	}
	return errors.Join(problems...)
}

// holdSession keeps a session open until ctx ends. Then it ends the locks, the
// session in the store, and last the advisory locks. In this order, a caller that
// finds them gone is not refused.
func (l *Locker) holdSession(ctx context.Context) {
	var sweeps sync.WaitGroup
	sweeps.Go(func() {
		for sleep.For(ctx, l.options.Session.TTL/3) == nil {
			if _, err := l.keeper.Session(); err == nil {
				l.sweepGrants(ctx)
			}
		}
	})
	last, _ := l.keeper.Run(ctx) // without Options.Permanent it returns no error
	sweeps.Wait()
	if last == nil {
		return
	}
	var left []advisoryLock
	for _, lock := range last.Data.locks() {
		left = append(left, lock.drop()...)
	}
	if err := l.removeAll(ctx, left); err != nil {
		l.options.Log.Debug().Err(err).
			Msg("advisory locks not removed at the end of their session")
	}
}

// swept are locks of dead sessions whose advisory locks are not removed yet.
type swept struct {
	mu   sync.Mutex
	left []Released
}

// take returns the locks and forgets them.
func (s *swept) take() []Released {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.left
	s.left = nil
	return left
}

// put remembers locks, at most the last MaxGrants of all.
func (s *swept) put(left []Released) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = append(s.left, left...)
	s.left = s.left[max(0, len(s.left)-MaxGrants):]
}

// sweepGrants releases the locks of expired sessions and removes their advisory locks, so that no
// waiter needs to wait for the end of a lease. It also removes those that earlier sweeps could not
// remove.
func (l *Locker) sweepGrants(ctx context.Context) {
	sweeping, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	released, err := l.options.Grants.Sweep(sweeping)
	if err != nil && sweeping.Err() == nil {
		l.options.Log.Warn().Err(err).Msg("sweep of dead sessions failed")
	}
	for _, r := range released {
		l.options.Log.Warn().Str("dead_replica", r.Owner.Replica).Str("job", r.Owner.Job).
			Str("run", r.Owner.Run).
			Int64("token", int64(r.Token)).Msg("lock of a dead session released")
	}
	released = append(l.swept.take(), released...)
	clearing, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if err := l.ClearReleased(clearing, released); err != nil {
		l.options.Log.Debug().Err(err).
			Msg("advisory locks of dead sessions not removed, trying again at the next sweep")
		l.swept.put(released)
	}
}
