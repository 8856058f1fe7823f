package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
)

var (
	// ErrLost says that a session has ended or expired.
	ErrLost = errors.New("session is lost")
	// ErrNone says that there is no session now.
	ErrNone = errors.New("there is no session")
	// ErrEnded says that Run has returned, or is about to, and opens no other
	// session. It wraps ErrLost.
	ErrEnded = fmt.Errorf("%w: Run has ended it", ErrLost)
)

const (
	callTimeout = 5 * time.Second // limit of each call of the store
	maxRetry    = time.Second     // longest delay after a failed call
)

// Options configure a Keeper. Open, Heartbeat and End are required. The keeper
// calls them and Prepare and OnWake from the goroutine of Run.
type Options[T any] struct {
	TTL      time.Duration // a session expires that long after its last renewal
	Interval time.Duration // between heartbeats; at most a third of TTL

	// Open registers a session in the store. first is true until one session
	// was opened and prepared.
	Open func(ctx context.Context, id uuid.UUID, first bool) error
	// NewData returns the data of a session that was registered.
	NewData func(s *Session[T]) T
	// Prepare completes a registered session before its first heartbeat. Its
	// context ends when the session expires.
	Prepare func(ctx context.Context, s *Session[T]) error
	// Heartbeat renews the session in the store, and returns a function that
	// applies the reply. The keeper calls that function after it has extended
	// the trust. An error of apply fails an opening; later ones are logged. An
	// error of Heartbeat that wraps ErrLost ends the session.
	Heartbeat func(ctx context.Context, s *Session[T]) (apply func(context.Context) error,
		err error)
	// Lost is called once a session, as soon as its context has ended, and
	// before the session ends in the store or another one is opened.
	Lost func(s *Session[T], cause error)
	// End ends a session in the store. The keeper calls it when Run stops and
	// when a session could not be prepared.
	End func(ctx context.Context, id uuid.UUID) error
	// Permanent reports whether an error of the first opening ends Run.
	Permanent func(err error) bool

	// HeartbeatNow holds a value when the next heartbeat must not wait.
	HeartbeatNow <-chan struct{}
	// Wake holds a value when OnWake is to be called between two heartbeats. The context of OnWake
	// ends while there is time for a heartbeat before the session expires.
	Wake   <-chan struct{}
	OnWake func(ctx context.Context, s *Session[T])

	Log zerolog.Logger
}

func (o *Options[T]) setDefaults() {
	if o.NewData == nil {
		o.NewData = func(*Session[T]) (none T) { return none }
	}
	if o.Prepare == nil {
		o.Prepare = func(context.Context, *Session[T]) error { return nil }
	}
	if o.Lost == nil {
		o.Lost = func(*Session[T], error) {}
	}
	if o.Permanent == nil {
		o.Permanent = func(error) bool { return false }
	}
}

// Keeper keeps one session open. Its methods may be called concurrently.
type Keeper[T any] struct {
	options      Options[T]
	opened, lost atomic.Int64

	mu      sync.Mutex
	current *Session[T]
	reason  error // why there is none
	stopped bool
	changed chan struct{} // closed when one of these fields changes
}

// New returns a Keeper without a session; Run opens one.
func New[T any](o Options[T]) *Keeper[T] {
	o.setDefaults()
	return &Keeper[T]{options: o, reason: errors.New("Run has not opened one yet"),
		changed: make(chan struct{})}
}

// Opened returns how many sessions were opened.
func (k *Keeper[T]) Opened() int64 { return k.opened.Load() }

// Lost returns how many of the opened sessions were lost. Those that Run ended
// do not count.
func (k *Keeper[T]) Lost() int64 { return k.lost.Load() }

// Session returns the current session, or an error that wraps ErrNone and the
// reason why there is none.
func (k *Keeper[T]) Session() (*Session[T], error) {
	s, _, _, err := k.look()
	return s, err
}

// Wait returns the current session, and waits for one where there is none. It
// returns an error that wraps ErrNone when ctx ends or Run has returned.
func (k *Keeper[T]) Wait(ctx context.Context) (*Session[T], error) {
	for {
		s, stopped, changed, err := k.look()
		if s != nil || stopped {
			return s, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w; %w", err, context.Cause(ctx))
		}
	}
}

// AwaitConfirmed reports whether the current session was confirmed within the
// last one and a half intervals. Otherwise it returns false, after the next
// confirmation, the loss of the session or the end of ctx.
//
// A replica that cannot reach the store can still reach the gates. Until its
// session expires it would win firings that it cannot start. This check bounds
// that time. A heartbeat goes out once an interval, and may take half of one.
func (k *Keeper[T]) AwaitConfirmed(ctx context.Context) bool {
	s, err := k.Session()
	if err != nil {
		return false
	}
	if s.unconfirmed() <= k.options.Interval*3/2 {
		return true
	}
	select {
	case <-s.renewed:
	case <-s.ctx.Done():
	case <-ctx.Done():
	}
	return false
}

func (k *Keeper[T]) look() (s *Session[T], stopped bool, changed <-chan struct{}, err error) {
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

func (k *Keeper[T]) set(s *Session[T], reason error, stopped bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.reason, k.stopped = s, reason, stopped
	close(k.changed)
	k.changed = make(chan struct{})
}

// Run keeps a session open until ctx ends. Then it ends that session in the
// store and returns it, or nil where there was none. It returns an error when
// the first opening fails and Options.Permanent holds. It is called once.
func (k *Keeper[T]) Run(ctx context.Context) (last *Session[T], err error) {
	defer func() {
		reason := ErrEnded
		if err != nil {
			reason = err
		}
		k.set(nil, reason, true)
	}()
	for first, failures := true, 0; ctx.Err() == nil; {
		s, err := k.open(ctx, first)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			if first && k.options.Permanent(err) {
				return nil, err
			}
			if failures++; failures == 1 {
				k.options.Log.Warn().Err(err).Msg("session not opened, repeats are not logged")
			}
			k.set(nil, err, false)
			sleep.For(ctx, min(k.options.Interval, maxRetry))
			continue
		}
		first, failures = false, 0
		k.opened.Add(1)
		k.set(s, nil, false)
		k.renewUntilLost(ctx, s)
		s.cancel(ErrEnded) // no effect on a lost session
		<-s.over
		if ctx.Err() != nil {
			k.end(s)
			return s, nil
		}
	}
	return nil, nil
}

// open registers a new session, prepares it and confirms it. The trust counts
// from before the first request.
func (k *Keeper[T]) open(ctx context.Context, first bool) (*Session[T], error) {
	bounded, cancel := context.WithTimeout(ctx, min(k.options.TTL, callTimeout))
	defer cancel()
	s := &Session[T]{ID: uuid.New(), startedAt: time.Now(), renewed: make(chan struct{}, 1),
		over: make(chan struct{})}
	if err := k.options.Open(bounded, s.ID, first); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.Data = k.options.NewData(s)
	s.expiry = time.AfterFunc(time.Until(s.startedAt.Add(k.options.TTL)), func() {
		s.cancel(k.expired())
	})
	context.AfterFunc(s.ctx, func() {
		s.expiry.Stop()
		k.options.Lost(s, context.Cause(s.ctx))
		close(s.over)
	})
	if err := k.prepare(ctx, s); err != nil {
		s.cancel(err)
		<-s.over
		k.end(s) // otherwise what was registered for it stays until it expires
		return nil, err
	}
	k.options.Log.Info().Stringer("session", s.ID).Msg("session opened")
	return s, nil
}

// prepare completes a registered session and sends its first heartbeat.
func (k *Keeper[T]) prepare(ctx context.Context, s *Session[T]) error {
	bounded, cancel := context.WithDeadline(ctx, s.trustedUntil(k.options.TTL))
	defer cancel()
	if err := k.options.Prepare(bounded, s); err != nil {
		return err
	}
	apply, err := k.renew(ctx, s)
	if err != nil {
		return err
	}
	return k.apply(ctx, apply)
}

// renewUntilLost sends heartbeats until the session is lost or ctx ends.
func (k *Keeper[T]) renewUntilLost(ctx context.Context, s *Session[T]) {
	next := time.Now().Add(k.options.Interval)
	for failing, woken := false, false; ; {
		if woken && time.Now().Before(next) {
			k.onWake(ctx, s, next)
			woken = false
		}
		timer := sleep.Timer(time.Until(next))
		select {
		case <-timer.C:
		case <-k.options.HeartbeatNow:
		case <-k.options.Wake:
			if woken = true; time.Now().Before(next) {
				continue // without a change to the time of the next heartbeat
			}
		case <-s.ctx.Done():
			k.lost.Add(1)
			k.options.Log.Error().Err(context.Cause(s.ctx)).Msg("session lost")
			return
		case <-ctx.Done():
			return
		}
		delay, sent := k.options.Interval, time.Now()
		apply, err := k.renew(ctx, s)
		switch {
		case err == nil:
			failing = false
			if err := k.apply(ctx, apply); err != nil && ctx.Err() == nil {
				k.options.Log.Warn().Err(err).
					Msg("heartbeat reply not applied, the next heartbeat retries")
			}
		case errors.Is(err, ErrLost):
			s.cancel(err)
		case ctx.Err() == nil:
			if !failing {
				k.options.Log.Warn().Err(err).Msg("heartbeat not confirmed, retrying")
			}
			delay, failing = min(k.options.Interval, maxRetry), true
		}
		next = sent.Add(delay)
	}
}

// onWake calls OnWake. It may delay the next heartbeat, but a heartbeat must still have its time
// before the session expires.
func (k *Keeper[T]) onWake(ctx context.Context, s *Session[T], next time.Time) {
	end := s.trustedUntil(k.options.TTL).Add(-k.callLimit())
	if end.Before(next) {
		end = next
	}
	bounded, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	k.options.OnWake(bounded, s)
}

// renew sends one heartbeat and extends the trust in the session. It returns
// the function that applies the reply.
//
// The heartbeat has at most the time that is left of the session. A reply that
// comes after the expiry does not revive the session.
func (k *Keeper[T]) renew(ctx context.Context, s *Session[T]) (
	apply func(context.Context) error, err error) {
	sent := time.Now()
	deadline := sent.Add(k.callLimit())
	if until := s.trustedUntil(k.options.TTL); until.Before(deadline) {
		deadline = until
	}
	bounded, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if apply, err = k.options.Heartbeat(bounded, s); err != nil {
		return nil, err
	}
	if !s.expiry.Stop() {
		return nil, k.expired()
	}
	s.expiry.Reset(time.Until(sent.Add(k.options.TTL)))
	s.confirm(sent)
	return apply, nil
}

func (k *Keeper[T]) apply(ctx context.Context, apply func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, k.callLimit())
	defer cancel()
	return apply(bounded)
}

// callLimit returns the time limit of a heartbeat, and of applying its reply.
func (k *Keeper[T]) callLimit() time.Duration { return min(k.options.TTL/3, callTimeout) }

func (k *Keeper[T]) expired() error {
	return fmt.Errorf("%w: not confirmed within %s", ErrLost, k.options.TTL)
}

// end ends the session in the store, so that other replicas need not wait for
// its expiry.
func (k *Keeper[T]) end(s *Session[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := k.options.End(ctx, s.ID); err != nil {
		k.options.Log.Warn().Err(err).Msg("session not ended, it expires by itself")
		return
	}
	k.options.Log.Info().Stringer("session", s.ID).Msg("session ended")
}
