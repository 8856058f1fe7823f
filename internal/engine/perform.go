package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// abandonAfter is how long a handler may ignore the end of its context. Then its claim is given
	// back: its later writes through a fence cannot commit, and its resources are free.
	abandonAfter = 10 * time.Second
	maxErrorText = 8 << 10
)

var errAbandoned = errors.New("handler ignored the end of its context and was abandoned")

// perform runs the handler once under the claim, records its end, and gives back the claim and the
// locks. It reports whether another attempt follows.
func (f *firing) perform(token jobs.Token, lock *locking.Lock) (again bool) {
	handler, params := f.handler()
	run := jobs.Run{
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

	f.publishStarted(run)
	begun := time.Now()
	traced, leave := f.runSpans.handler(ctx, token)
	ended, left := f.handle(traced, run, handler)
	leave(ended)
	again = f.mayRetry(ended)
	// Another attempt needs a claim of its own. Until the end of this one is recorded, the store
	// would return the current claim.
	took := time.Since(begun)
	finishing := f.runSpans.now()
	recorded := f.record(run, ended, again, left)
	f.runSpans.finished(finishing, recorded)
	again = recorded && again
	f.release(lock)
	f.runSpans.ended(ended.state, ended.reason, ended.err)
	f.logEnd(run, ended, took, again)
	if recorded && ended.reason != jobs.ReasonClaimLost {
		// otherwise the store has recorded another end
		f.publishEnded(run, ended, took, again)
	} else {
		f.publishRevoked()
	}
	return again
}

// freeWhenLost releases the advisory locks as soon as the claim is lost. Other runs may be granted
// its resources and need not wait for the handler to return. The returned function ends the watch.
func (f *firing) freeWhenLost(ctx context.Context, lock *locking.Lock) (end func() bool) {
	return context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), jobs.ErrClaimLost) {
			f.release(lock)
		}
	})
}

// handle calls the handler and waits for it. It abandons a handler that does not return after its
// context has ended.
func (f *firing) handle(ctx context.Context, run *jobs.Run,
	handler jobs.HandlerFunc) (v verdict, leftBehind bool) {
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

// judge returns how the attempt ended: as the run's own transaction recorded, or as the package's
// judge decides.
func (f *firing) judge(ctx context.Context, run *jobs.Run, err error) verdict {
	if state := run.Internal().Completed(); state != "" {
		return verdict{state: jobs.State(state)}
	}
	return judge(ctx, err)
}

func protect(ctx context.Context, handle jobs.HandlerFunc, run *jobs.Run) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &jobs.PanicError{Value: value, Stack: debug.Stack()}
			run.Log().Error().Msgf("%s\n%s", err, debug.Stack())
		}
	}()
	return handle(ctx, run)
}

// mayRetry reports whether the job's policy allows another attempt after this end, and stores its
// delay. Another replica may execute that attempt.
func (f *firing) mayRetry(v verdict) bool {
	var refused *triggerParamsError
	if v.state != jobs.Failed && v.state != jobs.TimedOut || errors.As(v.err, &refused) {
		return false
	}
	delay, more := f.attempts.Next(time.Now())
	f.retryDelay = delay
	return more && (f.entry.Retry.Attempts == 0 || f.attempt < f.entry.Retry.Attempts)
}

// record writes the end of the attempt to the store, and reports whether it is recorded. It retries
// while the store is unavailable and the session may be alive. Its context survives shutdown.
func (f *firing) record(run *jobs.Run, v verdict, again, leftBehind bool) bool {
	if run.Internal().Completed() != "" {
		return true
	}
	request := storage.FinishRequest{Run: run.ID, Token: run.Token, State: v.state,
		Reason: v.reason,
		Detail: v.detail, Output: run.OutputText(), Result: run.Result(), LeftBehind: leftBehind}
	if v.err != nil {
		request.Error = output.PlainText(output.Cut(v.err.Error(), maxErrorText))
	}
	if v.state == jobs.Succeeded {
		request.Output, request.Saved = run.Internal().Output.Text(output.MaxSucceeded),
			run.Internal().Saved()
	}
	if again {
		request.State, request.Reason = jobs.Waiting, jobs.ReasonRetry
		request.Detail = fmt.Sprintf("attempt %d ended as %s", f.attempt, v.state)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.session.Context()), f.ttl)
	defer cancel()
	for held := leftBehind; ; { // an abandoned handler may hold the claim in a transaction
		done, err := f.finishes.ask(ctx, request, held)
		held = errors.Is(err, storage.ErrRowHeld)
		switch {
		case err == nil && !done:
			f.log.Warn().Int64("token", int64(run.Token)).
				Msg("run superseded, end not recorded")
			return false
		case err == nil:
			return true
		case ctx.Err() != nil:
			f.log.Error().Err(err).Str("state", string(request.State)).
				Msg("record end of run failed, a sweep records it as lost")
			return false
		case !errors.Is(err, storage.ErrUnavailable):
			// The store refuses some of the text. Record the outcome alone; the state belongs to
			// it.
			request.Detail, request.Error, request.Output, request.Result = "", "", "", nil
			f.log.Error().Err(err).
				Msg("end of run refused by the store, retrying without its texts")
		}
		pause(ctx, startBackoff)
	}
}

func (f *firing) logEnd(run *jobs.Run, v verdict, took time.Duration, again bool) {
	event := f.log.Info()
	if v.state != jobs.Succeeded {
		event = f.log.Warn().AnErr("error", v.err)
	}
	event.Str("state", string(v.state)).Str("reason", string(v.reason)).
		Int64("token", int64(run.Token)).
		Int("attempt", run.Attempt).Dur("took", took).Bool("again", again).Msg("run ended")
}
