package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
