// Package session keeps a replica's session in a store: it opens one, renews
// it by heartbeats, and opens another when it is lost.
//
// A session is trusted from before a request was sent until its TTL later, on
// this machine's monotonic clock, so that a slow reply can't stretch it. When
// it was not confirmed by then its context ends, whatever a heartbeat is doing.
// A session never revives.
package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

var (
	// ErrLost says that a session has ended or expired.
	ErrLost = errors.New("session is lost")
	// ErrNone says that there is no session now.
	ErrNone = errors.New("there is no session")
	// ErrEnded says that Run has returned, or is about to: there will be no
	// other session. It wraps ErrLost.
	ErrEnded = fmt.Errorf("%w: Run has ended it", ErrLost)
)

const (
	callTimeout = 5 * time.Second // of each call of the store, at most
	retryEvery  = time.Second     // after a call that failed, at most
)

// Life is one session, with what belongs to it.
type Life[T any] struct {
	ID  uuid.UUID
	Own T

	ctx    context.Context
	cancel context.CancelCauseFunc
	expiry *time.Timer   // ends the context when no heartbeat was confirmed in time
	over   chan struct{} // closed when Lost has been told
}

// Context ends when the session is lost, with a cause that wraps ErrLost.
func (l *Life[T]) Context() context.Context { return l.ctx }

// End says that the store takes the session for lost.
func (l *Life[T]) End(cause error) { l.cancel(cause) }

// Options say how a session is kept, and what goes with it.
type Options[T any] struct {
	TTL      time.Duration // a session expires that long after its last renewal
	Interval time.Duration // between heartbeats; at most a third of TTL

	// Open registers a session. first is true until one was opened.
	Open func(ctx context.Context, id uuid.UUID, first bool) error
	// Begin returns what belongs to a session that was opened.
	Begin func(l *Life[T]) T
	// Beat sends a heartbeat, and returns what to do with its answer once the
	// trust was extended. An error that wraps ErrLost ends the session.
	Beat func(ctx context.Context, l *Life[T]) (action func(context.Context), err error)
	// Lost is called once, as soon as a session's context has ended, before
	// the session is ended in the store or another is opened.
	Lost func(l *Life[T], cause error)
	// End gives a session back when the keeper stops.
	End func(ctx context.Context, id uuid.UUID) error

	Log zerolog.Logger
}

// Keeper keeps one session. Its methods may be called concurrently.
type Keeper[T any] struct {
	options Options[T]

	mu      sync.Mutex
	current *Life[T]
	reason  error // why there is none
	stopped bool
	changed chan struct{} // closed when something of these has changed
}

// New returns a Keeper without a session; Run opens one.
func New[T any](o Options[T]) *Keeper[T] {
	return &Keeper[T]{options: o, reason: errors.New("it is opened by Run"),
		changed: make(chan struct{})}
}

// Session returns the session that may be used now, or an error that wraps
// ErrNone and says why there is none.
func (k *Keeper[T]) Session() (*Life[T], error) {
	l, _, _, err := k.look()
	return l, err
}

// Wait returns the session that may be used, once there is one. It returns an
// error that wraps ErrNone when ctx ends or Run has returned.
func (k *Keeper[T]) Wait(ctx context.Context) (*Life[T], error) {
	for {
		l, stopped, changed, err := k.look()
		if l != nil || stopped {
			return l, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w; %w", err, context.Cause(ctx))
		}
	}
}

func (k *Keeper[T]) look() (l *Life[T], stopped bool, changed <-chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	reason := k.reason
	if k.current != nil {
		if k.current.ctx.Err() == nil {
			return k.current, false, k.changed, nil
		}
		reason = context.Cause(k.current.ctx)
	}
	return nil, k.stopped, k.changed, fmt.Errorf("%w: %w", ErrNone, reason)
}

func (k *Keeper[T]) set(l *Life[T], reason error, stopped bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.reason, k.stopped = l, reason, stopped
	close(k.changed)
	k.changed = make(chan struct{})
}

// Run keeps a session until ctx ends, and then ends it and returns it, or nil
// where there was none. It is called once.
func (k *Keeper[T]) Run(ctx context.Context) (last *Life[T]) {
	defer k.set(nil, ErrEnded, true)
	for first, failures := true, 0; ctx.Err() == nil; {
		l, err := k.open(ctx, first)
		if err != nil {
			if failures++; failures == 1 && ctx.Err() == nil {
				k.options.Log.Warn().Err(err).Msg("session not opened; repeats are not logged")
			}
			k.set(nil, err, false)
			pause(ctx, min(k.options.Interval, retryEvery))
			continue
		}
		first, failures = false, 0
		k.set(l, nil, false)
		k.beat(ctx, l)
		l.cancel(ErrEnded) // unless it was lost before
		<-l.over
		if ctx.Err() != nil {
			k.end(l)
			return l
		}
	}
	return nil
}

// open registers a new session and confirms it.
func (k *Keeper[T]) open(ctx context.Context, first bool) (*Life[T], error) {
	bounded, cancel := context.WithTimeout(ctx, min(k.options.TTL, callTimeout))
	defer cancel()
	l := &Life[T]{ID: uuid.New(), over: make(chan struct{})}
	if err := k.options.Open(bounded, l.ID, first); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	l.Own = k.options.Begin(l)
	l.expiry = time.AfterFunc(k.options.TTL, func() {
		l.cancel(fmt.Errorf("%w: not confirmed within %s", ErrLost, k.options.TTL))
	})
	context.AfterFunc(l.ctx, func() {
		l.expiry.Stop()
		k.options.Lost(l, context.Cause(l.ctx))
		close(l.over)
	})
	if err := k.renew(ctx, l); err != nil {
		l.cancel(err)
		<-l.over
		return nil, err
	}
	k.options.Log.Info().Stringer("session", l.ID).Msg("session opened")
	return l, nil
}

// beat renews the session until it is lost or ctx ends.
func (k *Keeper[T]) beat(ctx context.Context, l *Life[T]) {
	delay, failing := k.options.Interval, false
	for {
		select {
		case <-time.After(delay):
		case <-l.ctx.Done():
			k.options.Log.Error().Err(context.Cause(l.ctx)).Msg("session lost")
			return
		case <-ctx.Done():
			return
		}
		err := k.renew(ctx, l)
		switch {
		case err == nil:
			delay, failing = k.options.Interval, false
		case errors.Is(err, ErrLost):
			l.cancel(err)
		case ctx.Err() == nil:
			if !failing {
				k.options.Log.Warn().Err(err).Msg("heartbeat not confirmed, trying again")
			}
			delay, failing = min(k.options.Interval, retryEvery), true
		}
	}
}

// renew sends one heartbeat and acts on its answer.
func (k *Keeper[T]) renew(ctx context.Context, l *Life[T]) error {
	bounded, cancel := context.WithTimeout(ctx, min(k.options.TTL/3, callTimeout))
	defer cancel()
	sent := time.Now()
	action, err := k.options.Beat(bounded, l)
	if err != nil {
		return err
	}
	l.expiry.Reset(time.Until(sent.Add(k.options.TTL))) // at once, if that has passed
	action(bounded)
	return nil
}

// end gives the session back, so that nobody has to wait for its expiry.
func (k *Keeper[T]) end(l *Life[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := k.options.End(ctx, l.ID); err != nil {
		k.options.Log.Warn().Err(err).Msg("session not ended, it expires by itself")
		return
	}
	k.options.Log.Info().Stringer("session", l.ID).Msg("session ended")
}

// pause waits for d or for ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
