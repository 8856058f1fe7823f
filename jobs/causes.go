package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Causes of the end of a run's context. context.Cause returns one of them, or an error that wraps
// one.
var (
	// ErrClaimLost says that the run's claim was revoked.
	ErrClaimLost = errors.New("claim is lost")
	// ErrShutdown says that the replica is stopping and the grace period has ended.
	ErrShutdown = errors.New("replica is shutting down")
	// ErrCancelled says that an operator ended the run.
	ErrCancelled = errors.New("cancelled by an operator")
	// ErrTimeout says that the run took longer than its timeout.
	ErrTimeout = errors.New("timeout")
)

// PanicError is the error of a run whose handler panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error includes the value of the panic.
func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// Unwrap returns the value, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// verdict is how an attempt ended.
type verdict struct {
	state  State
	reason Reason
	detail string
	err    error
}

// judge returns how an attempt ended, from the handler's error and the cause with which its context
// ended, if it did. A handler that returns nil has succeeded, even if its context has ended.
func judge(ctx context.Context, err error) verdict {
	if err == nil {
		return verdict{state: Succeeded}
	}
	var panicked *PanicError
	if errors.As(err, &panicked) {
		return verdict{state: Failed, reason: ReasonPanic, err: err}
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, ErrSuperseded), errors.Is(cause, ErrClaimLost):
		return verdict{state: Lost, reason: ReasonClaimLost, detail: RevokedDetail, err: err}
	case errors.Is(cause, ErrSessionLost):
		return verdict{state: Lost, reason: ReasonSessionLost,
			detail: "its replica could not confirm its session", err: err}
	case errors.Is(cause, ErrTimeout):
		return verdict{state: TimedOut, reason: ReasonTimeout, detail: cause.Error(), err: err}
	case errors.Is(cause, ErrCancelled):
		return verdict{state: Cancelled, reason: ReasonCancelled, detail: cause.Error(), err: err}
	case errors.Is(cause, ErrShutdown):
		return verdict{state: Cancelled, reason: ReasonShutdown, detail: "its replica was stopped",
			err: err}
	default:
		return verdict{state: Failed, err: err}
	}
}

func timeoutCause(after time.Duration) error {
	return fmt.Errorf("%w: it had not ended after %s", ErrTimeout, after)
}
