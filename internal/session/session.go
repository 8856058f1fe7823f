package session

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Session is one session, with the data that its user attaches to it.
type Session[T any] struct {
	ID   uuid.UUID
	Data T

	startedAt time.Time // before the store was asked for the session
	ctx       context.Context
	cancel    context.CancelCauseFunc
	expiry    *time.Timer // ends the context when no heartbeat was confirmed in time

	confirmed atomic.Int64  // from startedAt until the last confirmed request was sent
	renewed   chan struct{} // holds a value after a confirmation
	over      chan struct{} // closed after Options.Lost has returned
}

// Context returns a context that ends when the session is lost, with a cause
// that wraps ErrLost.
func (s *Session[T]) Context() context.Context { return s.ctx }

// MarkLost ends the session because the store takes it for lost. cause wraps
// ErrLost.
func (s *Session[T]) MarkLost(cause error) { s.cancel(cause) }

// confirm records the confirmation of a request that was sent at that time.
func (s *Session[T]) confirm(sent time.Time) {
	s.confirmed.Store(int64(sent.Sub(s.startedAt)))
	select {
	case s.renewed <- struct{}{}:
	default:
	}
}

// unconfirmed returns the time since the last confirmed request was sent.
func (s *Session[T]) unconfirmed() time.Duration {
	return time.Since(s.startedAt) - time.Duration(s.confirmed.Load())
}

// trustedUntil returns when the session expires without a further heartbeat.
func (s *Session[T]) trustedUntil(ttl time.Duration) time.Time {
	return s.startedAt.Add(time.Duration(s.confirmed.Load()) + ttl)
}
