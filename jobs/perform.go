package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// abandonAfter is how long a handler may ignore the end of its context.
	// Then its claim is given back: nothing it still writes through a fence
	// can commit, and its tables are free.
	abandonAfter = 10 * time.Second
	maxErrorText = 8 << 10
)

var errAbandoned = errors.New("handler ignored the end of its context and was left behind")

// perform runs the handler once under the claim, records how it ended and
// gives everything back. It reports whether another attempt is to follow.
func (f *firing) perform(token Token, lock *locking.Lock) (again bool) {
	handler, params := f.handler()
	run := Run{
		ID: f.run, Job: f.entry.Name, ScheduledAt: f.firing.ScheduledAt, Key: f.firing.Key,
		Attempt: f.attempt, Recovery: f.firing.Recovery,
		Replica: f.replica, Token: token, Params: params,
	}.With(f.newAttempt())
	ctx, cancel := context.WithCancelCause(f.session.Context())
	defer cancel(nil)
	remove := f.active.add(token, f.run, cancel)
	defer remove()
	f.active.writes(token, run.Internal().Output)
	defer f.freeWhenLost(ctx, lock)()
	f.log.Debug().Int64("token", int64(token)).Int("attempt", f.attempt).
		Dur("late", f.clock.now().Sub(f.firing.ScheduledAt)).Msg("run started")

	f.tellStarted(run)
	begun := time.Now()
	traced, leave := f.runSpans.handler(ctx, token)
	ended, left := f.handle(traced, run, handler)
	leave(ended)
	again = f.mayRetry(ended)
	// Another attempt needs a claim of its own: while the end of this one is
	// not recorded, the store would answer with the claim that it still has.
	took := time.Since(begun)
	finishing := f.runSpans.now()
	recorded := f.record(run, ended, again, left)
	f.runSpans.finished(finishing, recorded)
	again = recorded && again
	f.release(lock)
	f.runSpans.ended(ended.state, ended.reason, ended.err)
	f.logEnd(run, ended, took, again)
	if recorded && ended.reason != ReasonClaimLost { // else the store knows better how
		f.tellEnded(run, ended, took, again)
	} else {
		f.tellTakenAway()
	}
	return again
}

// freeWhenLost gives the stage-1 locks back as soon as the claim is known to be
// gone: others may be granted what it held, and need not wait until the handler
// has noticed. The returned function ends the watch.
func (f *firing) freeWhenLost(ctx context.Context, lock *locking.Lock) (end func() bool) {
	return context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrClaimLost) {
			f.release(lock)
		}
	})
}

// handle calls the handler and waits for it, or leaves it behind when it does
// not return after its context has ended.
func (f *firing) handle(ctx context.Context, run *Run,
	handler HandlerFunc) (v verdict, leftBehind bool) {
	if f.entry.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.entry.Timeout, timeoutCause(f.entry.Timeout))
		defer cancel()
	}
	returned := make(chan error, 1)
	go func() { returned <- protect(ctx, handler, run) }()
	select {
	case err := <-returned:
		return f.judge(ctx, run, err), false
	case <-ctx.Done():
	}
	select {
	case err := <-returned:
		return f.judge(ctx, run, err), false
	case <-time.After(abandonAfter):
		return f.judge(ctx, run, errAbandoned), true
	}
}

// judge is the package's judge, but what a run's own transaction recorded is
// how it ended.
func (f *firing) judge(ctx context.Context, run *Run, err error) verdict {
	if state := run.Internal().Completed(); state != "" {
		return verdict{state: State(state)}
	}
	return judge(ctx, err)
}

func protect(ctx context.Context, handle HandlerFunc, run *Run) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
			run.Log().Error().Msgf("%s\n%s", err, debug.Stack())
		}
	}()
	return handle(ctx, run)
}

// mayRetry reports whether the job's policy has another attempt for this end,
// and remembers after what delay. Whether this replica will be there to make
// it does not matter: another adopts the run.
func (f *firing) mayRetry(v verdict) bool {
	var refused *momentError
	if v.state != Failed && v.state != TimedOut || errors.As(v.err, &refused) {
		return false
	}
	delay, more := f.attempts.Next(time.Now())
	f.retryDelay = delay
	return more && (f.entry.Retry.Attempts == 0 || f.attempt < f.entry.Retry.Attempts)
}

// record writes down how the attempt ended, and goes on trying while the
// store can't be asked and the session may still be alive. It uses a context
// that shutdown has not ended. It reports whether the end is recorded.
func (f *firing) record(run *Run, v verdict, again, leftBehind bool) bool {
	if run.Internal().Completed() != "" {
		return true
	}
	request := FinishRequest{Run: run.ID, Token: run.Token, State: v.state, Reason: v.reason,
		Detail: v.detail, Output: run.OutputText(), Result: run.Result(), LeftBehind: leftBehind}
	if v.err != nil {
		request.Error = output.PlainText(cut(v.err.Error(), maxErrorText))
	}
	if v.state == Succeeded {
		request.Output, request.Saved = run.Internal().Output.Text(output.MaxSucceeded),
			run.Internal().Saved()
	}
	if again {
		request.State, request.Reason = Waiting, ReasonRetry
		request.Detail = fmt.Sprintf("attempt %d ended as %s", f.attempt, v.state)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.session.Context()), f.ttl)
	defer cancel()
	for held := leftBehind; ; { // inside a transaction, it may be, that holds its claim
		done, err := f.finishes.ask(ctx, request, held)
		held = errors.Is(err, ErrRowHeld)
		switch {
		case err == nil && !done:
			f.log.Warn().Int64("token", int64(run.Token)).
				Msg("run was superseded, its end is not recorded")
			return false
		case err == nil:
			return true
		case ctx.Err() != nil:
			f.log.Error().Err(err).Str("state", string(request.State)).
				Msg("run's end could not be recorded, a sweep records it as lost")
			return false
		case !errors.Is(err, ErrUnavailable):
			// Something of the text is refused: the outcome alone must do. The
			// state is of the outcome.
			request.Detail, request.Error, request.Output, request.Result = "", "", "", nil
			f.log.Error().Err(err).Msg(
				"run's end refused by the store, recording the outcome alone")
		}
		pause(ctx, startBackoff)
	}
}

func (f *firing) logEnd(run *Run, v verdict, took time.Duration, again bool) {
	event := f.log.Info()
	if v.state != Succeeded {
		event = f.log.Warn().AnErr("error", v.err)
	}
	event.Str("state", string(v.state)).Str("reason", string(v.reason)).
		Int64("token", int64(run.Token)).
		Int("attempt", run.Attempt).Dur("took", took).Bool("again", again).Msg("run ended")
}

// cut returns at most n bytes of s; PlainText mends a character cut in two.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}
