package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/durations"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// outcome is how an attempt ended.
type outcome struct {
	state  jobs.State
	reason jobs.Reason
	detail string
	err    error
}

// outcomeOf returns how an attempt ended: as the run's own transaction recorded, or as judge
// decides.
func outcomeOf(ctx context.Context, run *jobs.Run, err error) outcome {
	if state := run.Internal(attempt.NewKey()).Completed(); state != "" {
		logUnrecorded(run, err)
		return outcome{state: jobs.State(state)}
	}
	o := judge(ctx, err)
	if o.state == jobs.Succeeded && err != nil {
		fmt.Fprintln(run.Output(), err) // so that the history says why the attempt did nothing
	}
	return o
}

// logUnrecorded logs an error of a handler whose run has completed in its own transaction. Neither
// the history nor the log of the end has this error. The log already has panics.
func logUnrecorded(run *jobs.Run, err error) {
	var panicked *jobs.PanicError
	if err != nil && !committedBefore(err) && !errors.As(err, &panicked) {
		run.Log().Warn().Err(err).Msg("handler failed after its run was completed")
	}
}

// judge returns how an attempt ended, from the handler's error and the cause with which its context
// ended, if it did. A handler that returns nil has succeeded, even if its context has ended.
func judge(ctx context.Context, err error) outcome {
	if err == nil {
		return outcome{state: jobs.Succeeded}
	}
	var panicked *jobs.PanicError
	if errors.As(err, &panicked) {
		return outcome{state: jobs.Failed, reason: reasons.Panic, err: err}
	}
	if committedBefore(err) {
		return outcome{state: jobs.Succeeded}
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, storage.ErrSuperseded), errors.Is(cause, jobs.ErrClaimLost):
		return outcome{state: jobs.Lost, reason: reasons.ClaimLost,
			detail: storage.RevokedDetail, err: err}
	case errors.Is(cause, storage.ErrSessionLost):
		return outcome{state: jobs.Lost, reason: reasons.SessionLost,
			detail: "its replica could not confirm its session", err: err}
	case errors.Is(cause, jobs.ErrTimeout):
		return outcome{state: jobs.TimedOut, reason: reasons.Timeout, detail: cause.Error(),
			err: err}
	case errors.Is(cause, jobs.ErrCancelled):
		return outcome{state: jobs.Cancelled, reason: reasons.Cancelled, detail: cause.Error(),
			err: err}
	case errors.Is(cause, jobs.ErrShutdown):
		return outcome{state: jobs.Cancelled, reason: reasons.Shutdown,
			detail: "its replica was stopped",
			err:    err}
	default:
		return outcome{state: jobs.Failed, err: err}
	}
}

// committedBefore reports whether the error is storage.ErrCommitted, or wraps it and no other
// error. If the handler joins it with another error, a part of the work failed.
func committedBefore(err error) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		all := joined.Unwrap()
		return len(all) == 1 && committedBefore(all[0]) // as of errors.Join(err, tx.Rollback())
	}
	return errors.Is(err, storage.ErrCommitted)
}

// timeoutError is the cause with which the timeout of an attempt ends its context. Its text is made
// when it is needed, because most attempts end before.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string {
	return fmt.Sprintf("%s: the attempt had not ended after %s", jobs.ErrTimeout,
		durations.Short(e.after))
}

func (e timeoutError) Unwrap() error { return jobs.ErrTimeout }
