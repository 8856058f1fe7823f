package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// AttemptResult is how one call of a handler ended.
type AttemptResult struct {
	State  jobs.State
	Reason jobs.Reason
	Detail string // the reason in words
	Err    error  // of the handler
}

// CallHandler calls a handler as a replica does: with the timeout, if it is not 0, and with panics
// caught. A handler that ignores the end of its context is abandoned after 10 s. It is for tests of
// handlers.
func CallHandler(ctx context.Context, handler jobs.HandlerFunc, run *jobs.Run,
	timeout time.Duration) AttemptResult {
	o, _ := call(ctx, handler, run, timeout)
	return AttemptResult{State: o.state, Reason: o.reason, Detail: o.detail, Err: o.err}
}
