package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const maxErrorText = 8 << 10

// finisher records the ends of attempts in the store. While this replica starts runs, the ends wait
// for a short time, so that the starts come first and more ends share a transaction. An end does
// not wait if a firing of this replica waits for its resources, or if the next firing of its job
// would meet the run.
type finisher struct {
	calls    *batcher[storage.FinishRequest, bool]
	clock    *clusterClock
	handover *handover
	ttl      time.Duration // of the session
}

// record records the end of an attempt, unless the run's own transaction has recorded it. It
// reports whether the end is recorded.
func (w finisher) record(f *firing, run *jobs.Run, o outcome, again, leftBehind bool) bool {
	if run.Internal(attempt.NewKey()).Completed() != "" {
		return true
	}
	request := storage.FinishRequest{Run: run.ID, Token: run.Token, State: o.state,
		Reason: o.reason,
		Detail: o.detail, Output: run.OutputText(), Result: run.Result(), LeftBehind: leftBehind}
	if o.err != nil {
		request.Error = output.PlainText(output.Cut(o.err.Error(), maxErrorText))
	}
	if o.state == jobs.Succeeded {
		a := run.Internal(attempt.NewKey())
		request.Output, request.Saved = a.Output.Text(output.MaxSucceeded), a.Saved()
	}
	if again {
		request.Attempt = storage.AttemptEnd{State: o.state, Reason: o.reason, Detail: o.detail}
		request.State, request.Reason = jobs.Waiting, reasons.Retry
		request.Detail = fmt.Sprintf("attempt %d ended as %s", f.attempt, o.state)
	}
	return w.write(f, request)
}

// write sends the request while the store is unavailable and the session may be alive. It reports
// whether the end is recorded. Its context survives shutdown.
func (w finisher) write(f *firing, request storage.FinishRequest) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.session.Context()), w.ttl)
	defer cancel()
	// an abandoned handler may hold the claim in a transaction
	for held := request.LeftBehind; ; {
		done, err := w.ask(ctx, f, request, held)
		held = errors.Is(err, storage.ErrRowHeld)
		switch {
		case err == nil && !done:
			f.warn().Int64("token", int64(request.Token)).
				Msg("run superseded, end not recorded")
			return false
		case err == nil:
			return true
		case ctx.Err() != nil:
			f.error().Err(err).Str("state", string(request.State)).
				Msg("record end of run failed, a sweep records it as lost")
			return false
		case !errors.Is(err, storage.ErrUnavailable):
			// The store refuses some of the text. Record the outcome without its texts, but with
			// the saved state.
			request.Detail, request.Error, request.Output, request.Result = "", "", "", nil
			request.Attempt.Detail = ""
			f.error().Err(err).
				Msg("end of run refused by the store, retrying without its texts")
		}
		sleep.For(ctx, startBackoff)
	}
}

func (w finisher) ask(ctx context.Context, f *firing, request storage.FinishRequest, held bool) (
	bool, error) {
	now := w.clock.now()
	next := f.entry.nextStart(now)
	soon := !next.IsZero() && !next.After(now.Add(2*yieldFor))
	if !held && (soon || w.handover.awaitsAny(f.entry.requests)) {
		return w.calls.askNow(ctx, request)
	}
	return w.calls.ask(ctx, request, held)
}
