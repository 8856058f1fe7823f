package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// liveSession is one session of this replica. Its context ends, with a cause that
// wraps ErrSessionLost, when the session can no longer be trusted.
type liveSession struct {
	id     uuid.UUID
	begun  time.Time // before the store was asked for it
	ctx    context.Context
	cancel context.CancelCauseFunc
	expiry *time.Timer // ends the context when no heartbeat was confirmed in time

	confirmed atomic.Int64  // how long after begun the last confirmed request was sent
	renewed   chan struct{} // holds a value when a request was confirmed
}

// confirm notes that a request was confirmed that was sent then.
func (l *liveSession) confirm(sent time.Time) {
	l.confirmed.Store(int64(sent.Sub(l.begun)))
	signal(l.renewed)
}

// unconfirmed returns how long ago the last confirmed request was sent.
func (l *liveSession) unconfirmed() time.Duration {
	return time.Since(l.begun) - time.Duration(l.confirmed.Load())
}

// keeper opens this replica's session, renews it, and opens another when it
// is lost. One heartbeat renews all claims at once, and tells when another
// definition has come into force.
type keeper struct {
	store         Sessions
	activation    *activation
	revoke        func(ctx context.Context, token Token, state State, reason Reason) error
	replica       string
	succeeds      bool // the first session takes over from former lives
	version       string
	servers       string        // see Session.LockServers
	hash          func() string // see Session.Table
	replicaStatus func() ReplicaStatus
	interval      time.Duration
	ttl           time.Duration
	clock         *clusterClock
	active        *active
	log           zerolog.Logger
	opened        atomic.Int64 // sessions
	lost          atomic.Int64 // of them, not those that were given back
	// holds a value when a heartbeat is not to wait: an operator may have taken claims away
	hurry chan struct{}

	mu      sync.Mutex
	current *liveSession
	changed chan struct{} // closed when current changes
}

// session returns the session that may start runs now, or nil.
func (k *keeper) session() *liveSession {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil || k.current.ctx.Err() != nil {
		return nil
	}
	return k.current
}

// wait returns the session that may start runs, once there is one.
func (k *keeper) wait(ctx context.Context) (*liveSession, error) {
	for {
		k.mu.Lock()
		current, changed := k.current, k.changed
		k.mu.Unlock()
		if current != nil && current.ctx.Err() == nil {
			return current, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// awaitConfirmed reports whether a session was confirmed not long ago. Where it was
// not it waits for that, or until the session is lost or ctx ends.
//
// A replica that can't reach the store still reaches the gates, and would win
// firings that it can't start, until its session expires. One heartbeat and a half
// bound that: a heartbeat goes out each interval, and one that takes as long as
// half of it is no reason to begin nothing.
func (k *keeper) awaitConfirmed(ctx context.Context) bool {
	l := k.session()
	if l == nil {
		return false
	}
	if l.unconfirmed() <= k.interval*3/2 {
		return true
	}
	select {
	case <-l.renewed:
	case <-l.ctx.Done():
	case <-ctx.Done():
	}
	return false
}

func (k *keeper) set(l *liveSession) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current = l
	close(k.changed)
	k.changed = make(chan struct{})
}

// run keeps a session until ctx ends, and then ends it. It returns an error
// when the first is refused for a reason that does not pass by itself.
func (k *keeper) run(ctx context.Context) error {
	for opened := false; ctx.Err() == nil; {
		l, err := k.open(ctx, k.succeeds && !opened)
		if err != nil && !opened && ctx.Err() == nil && !errors.Is(err, ErrUnavailable) &&
			!errors.Is(err, ErrSessionLost) {
			return err
		}
		if err != nil {
			k.log.Warn().Err(err).Msg("session not opened")
			pause(ctx, time.Second)
			continue
		}
		opened = true
		k.opened.Add(1)
		k.set(l)
		k.beat(ctx, l)
		k.set(nil)
		if ctx.Err() != nil {
			k.end(l)
		}
		l.expiry.Stop()
		l.cancel(ErrSessionLost)
	}
	return nil
}

// open opens a session that carries this replica's definitions. Its trust
// counts from before the request, so that a slow reply cannot stretch it.
func (k *keeper) open(ctx context.Context, succeeds bool) (*liveSession, error) {
	bounded, cancel := context.WithTimeout(ctx, min(k.ttl, batchTimeout))
	defer cancel()
	l := &liveSession{id: uuid.New(), begun: time.Now(), renewed: make(chan struct{}, 1)}
	s := Session{ID: l.id, Replica: k.replica, Version: k.version, TTL: k.ttl, Succeeds: succeeds,
		LockServers: k.servers, Table: k.hash()}
	if err := k.store.Open(bounded, s); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	l.expiry = time.AfterFunc(time.Until(l.begun.Add(k.ttl)), func() {
		l.cancel(fmt.Errorf("%w: not confirmed within %s", ErrSessionLost, k.ttl))
	})
	if err := k.prepare(ctx, l); err != nil {
		l.expiry.Stop()
		l.cancel(err)
		k.end(l) // or what it carries would be active, with nobody to fire it, until it expires
		return nil, err
	}
	k.log.Info().Stringer("session", l.id).Msg("session opened")
	return l, nil
}

// prepare does what must be done before anything starts under the session. A
// large cron table may take all the time that the session has.
func (k *keeper) prepare(ctx context.Context, l *liveSession) error {
	bounded, cancel := context.WithDeadline(ctx, l.begun.Add(k.ttl))
	defer cancel()
	if err := k.activation.register(bounded, l.id); err != nil {
		return err
	}
	definitions, err := k.renew(ctx, l)
	if err != nil {
		return err
	}
	return k.activation.refresh(ctx, definitions)
}

// beat renews the session until it is lost or ctx ends.
func (k *keeper) beat(ctx context.Context, l *liveSession) {
	next := time.NewTimer(k.interval)
	defer next.Stop()
	for failures := 0; ; {
		delay := k.interval
		select {
		case <-next.C:
		case <-k.hurry:
		case <-k.activation.doubts:
			k.activation.tryRefresh(ctx, unread)
			continue
		case <-k.activation.added:
			k.activation.tryEnroll(ctx, l.id)
			continue
		case <-l.ctx.Done():
			k.lost.Add(1)
			k.log.Error().Err(context.Cause(l.ctx)).Int("runs", k.active.len()).
				Msg("session lost, its runs are cancelled")
			return
		case <-ctx.Done():
			return
		}
		definitions, err := k.renew(ctx, l)
		switch {
		case err == nil:
			failures = 0
			k.activation.tryRefresh(ctx, definitions)
		case errors.Is(err, ErrSessionLost):
			l.cancel(err)
		case ctx.Err() == nil:
			if failures++; failures == 1 {
				k.log.Warn().Err(err).Msg("heartbeat not confirmed, trying again")
			}
			delay = min(k.interval, time.Second)
		}
		next.Reset(delay)
	}
}

// renew sends one heartbeat and acts on its answer. It returns the beat's
// Definitions.
func (k *keeper) renew(ctx context.Context, l *liveSession) (definitions int64, err error) {
	bounded, cancel := context.WithTimeout(ctx, min(k.ttl/3, batchTimeout))
	defer cancel()
	known := k.active.tokens()
	sent := time.Now()
	beat, err := k.store.Heartbeat(bounded, l.id, k.replicaStatus())
	if err != nil {
		return 0, err
	}
	if beat.Asked.IsZero() {
		beat.Asked, beat.Answered = sent, time.Now()
	}
	k.clock.measure(beat.Asked, beat.Answered, beat.Now)
	if !l.expiry.Stop() {
		return 0, fmt.Errorf("%w: not confirmed within %s", ErrSessionLost, k.ttl)
	}
	l.expiry.Reset(time.Until(sent.Add(k.ttl)))
	l.confirm(sent)
	for _, token := range known {
		if _, stands := beat.Claims[token]; !stands {
			k.active.cancel(token, ErrClaimLost)
		}
	}
	for _, token := range k.active.strangers(beat.Claims) {
		k.log.Warn().Int64("token", int64(token)).
			Msg("claim of a start whose reply was lost is given back")
		if err := k.revoke(bounded, token, Lost, ReasonClaimLost); err != nil {
			k.log.Warn().Err(err).Int64("token", int64(token)).
				Msg("claim not given back, the next heartbeat tries again")
		}
	}
	return beat.Definitions, nil
}

// end gives the session back at shutdown, so that nobody has to wait for its
// expiry.
func (k *keeper) end(l *liveSession) {
	ctx, cancel := context.WithTimeout(context.Background(), batchTimeout)
	defer cancel()
	if err := k.store.End(ctx, l.id); err != nil {
		k.log.Warn().Err(err).Msg("session not ended, it expires by itself")
		return
	}
	k.log.Info().Stringer("session", l.id).Msg("session ended")
}

// pause waits for d or for ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
