package access

import (
	"context"
	"errors"
)

const (
	// maxChecks bounds the CPU time and memory that password guessing can take from jobs, and the
	// requests to the provider of OpenID Connect.
	maxChecks = 2
	// maxWaitingChecks bounds the connections that wait for a check.
	maxWaitingChecks = 8
)

var errManyChecks = errors.New("too many sign-ins are being checked")

// turns is a short queue of sign-ins that are checked. It is safe for concurrent use.
type turns struct {
	active   chan struct{} // one element for each active check
	admitted chan struct{} // one element for each check that is active or waits
}

func newTurns() turns {
	return turns{active: make(chan struct{}, maxChecks),
		admitted: make(chan struct{}, maxChecks+maxWaitingChecks)}
}

// enter waits for a turn, which ends with leave. It returns errManyChecks if the queue is full, or
// the error of ctx if that ended before the turn came.
func (t turns) enter(ctx context.Context) (leave func(), err error) {
	select {
	case t.admitted <- struct{}{}:
	default:
		return nil, errManyChecks
	}
	select {
	case t.active <- struct{}{}:
		return func() { <-t.active; <-t.admitted }, nil
	case <-ctx.Done():
		<-t.admitted
		return nil, ctx.Err()
	}
}
