package engine

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// abandonAfter is how long a handler may ignore the end of its context. Then its claim is given
// back: its later writes through a fence cannot commit, and its resources are free.
const abandonAfter = 10 * time.Second

var errAbandoned = errors.New("handler ignored the end of its context and was abandoned")

// performer executes attempts.
type performer struct {
	replica   string
	table     *cronTable
	clock     *clusterClock
	registry  *jobs.Registry
	store     storage.RunStore
	cluster   uuid.UUID
	databases Databases
	locks     advisoryLocks
	active    *active
	finishes  finisher
	events    *events
	wakes     *wakes
	logOutput io.Writer
}

// perform runs the handler once under the claim, records its end, and gives back the claim and the
// locks. It reports whether another attempt follows, and after which delay. A firing that has begun
// early gets its worker here. If it gets none soon, perform gives back the claim and the locks
// without calling the handler, so that the locks do not wait for a worker.
//
// If the grace period of a stopping replica is over, the context of the attempt has ended before
// the call. Then perform also gives back the claim of a first attempt. A later attempt ends as
// cancelled, because a claim that is given back counts as no attempt.
//
// began is when the first attempt of this replica began.
func (p performer) perform(f *firing, c *claim,
	began time.Time) (delay time.Duration, again bool) {
	handler, params := bindTriggerParams(p.registry, f)
	run := jobs.Run{
		ID: f.run, Job: f.entry.Name, ScheduledAt: f.ScheduledAt, Key: f.Key,
		KeyActor: f.KeyActor, Attempt: f.attempt, Recovery: f.Recovery,
		Replica: p.replica, Token: c.token, Params: params,
	}.With(attempt.NewKey(), p.newAttempt(f))
	ctx, cancel := context.WithCancelCause(f.session.Context())
	defer cancel(nil)
	remove := p.active.add(c.token, f.run, cancelAndRelease(cancel, f, c.lock))
	defer remove()
	p.active.writes(c.token, run.Internal(attempt.NewKey()).Output)
	if f.unlocked {
		defer p.locks.takeLate(ctx, f)()
	}
	uncalled := p.awaitWorker(ctx, f)
	hasWorker := uncalled == nil
	if hasWorker {
		uncalled = context.Cause(ctx) // only once: the context may end at any time
	}
	if !hasWorker && mayRunElsewhere(ctx) || uncalled != nil && f.attempt <= 1 && isStopped(ctx) {
		p.giveBack(f, c)
		return 0, false
	}
	f.debug().Int64("token", int64(c.token)).Int("attempt", f.attempt).
		Dur("late", p.clock.now().Sub(f.ScheduledAt)).Msg("run started")

	p.events.started(f, c)
	start := time.Now()
	var ended outcome
	var leftBehind bool
	if uncalled == nil {
		ended, leftBehind = callTraced(ctx, f, c, handler, run)
	} else {
		f.worker.endCall()
		ended = judge(ctx, context.Cause(ctx))
	}
	took := time.Since(start)
	delay, again = mayRetry(f, ended, began)
	// Another attempt needs a claim of its own. Until the end of this one is recorded, the store
	// would return the current claim.
	finishing := f.spans.now()
	recorded := p.finishes.record(f, run, ended, again, leftBehind)
	f.spans.finished(finishing, recorded)
	again = recorded && again
	if recorded && ended.state == jobs.Succeeded {
		p.wakes.succeeded(f.Job)
	}
	release(f, c.lock)
	f.spans.ended(ended.state, ended.reason, ended.err)
	logEnd(f, run, ended, took, again)
	if recorded && ended.reason != reasons.ClaimLost {
		// otherwise the store has recorded another end
		p.events.ended(f, c, ended, took, again)
	} else {
		p.events.revoked(f)
	}
	return delay, again
}

// decline gives back a claim that was granted after the deadline, because the store answered late.
func (p performer) decline(f *firing, c *claim) {
	remove := p.active.add(c.token, f.run, func(error) {})
	defer remove()
	p.finishUncalled(f, c, storage.FinishRequest{State: jobs.Skipped, Reason: reasons.Deadline,
		Detail: f.lateWords("the store did not answer in time")})
}

// giveBack gives back the claim of a firing that has begun early and got no worker. Its run waits
// as if it had not started, and any replica may adopt it. If its job was removed, it is skipped.
func (p performer) giveBack(f *firing, c *claim) {
	if p.table.removed(f.entry) {
		p.finishUncalled(f, c, storage.FinishRequest{State: jobs.Skipped,
			Reason: reasons.JobGone, Detail: jobRemoved})
		return
	}
	if p.finishUncalled(f, c, storage.FinishRequest{State: jobs.Waiting, Reason: reasons.NoWorker,
		Detail:    "replica " + p.replica + " had no free worker for it",
		GivenBack: true}) {
		f.info().Int64("token", int64(c.token)).
			Msg("claim given back, because no worker was free")
	}
}

// finishUncalled ends a claim whose handler was not called, and releases the locks. It sets the run
// and the token of the request. It reports whether the end is recorded.
func (p performer) finishUncalled(f *firing, c *claim, r storage.FinishRequest) bool {
	r.Run, r.Token = f.run, c.token
	recorded := p.finishes.write(f, r)
	release(f, c.lock)
	f.spans.ended(r.State, r.Reason, nil)
	switch {
	case !recorded:
		p.events.revoked(f)
	case r.State.Final():
		p.events.notStarted(f, storage.Note{State: r.State, Reason: r.Reason, Detail: r.Detail})
	}
	return recorded
}

// newAttempt returns what an attempt of the firing has besides what its handler sees.
func (p performer) newAttempt(f *firing) *storage.Attempt {
	a := &storage.Attempt{Store: p.databases.storeOf(f.entry.Database, p.store),
		Output: output.NewTail(output.Max), Cluster: p.cluster,
		Locks: storage.LocksOf(f.entry.requests)}
	if f.entry.mask != nil {
		a.Output.Mask(f.entry.mask.Text, f.entry.mask.Longest())
	}
	// An abandoned handler may ask for its logger while the firing is at a later attempt.
	number := f.attempt
	a.NewLog = func() zerolog.Logger {
		return p.newLog(f, a.Output).With().Int("attempt", number).Logger()
	}
	return a
}

// newLog returns a logger whose lines go to the replica's log and to the run's output.
func (p performer) newLog(f *firing, output io.Writer) zerolog.Logger {
	console := zerolog.ConsoleWriter{Out: output, NoColor: true, TimeFormat: time.TimeOnly,
		FieldsExclude: []string{"job", "run", "scheduled_at", "replica", "trace_id"}}
	var writers io.Writer = console
	if p.logOutput != nil {
		writers = zerolog.MultiLevelWriter(f.entry.mask.Writer(p.logOutput), console)
	}
	return f.log.With().EmbedObject(f).Logger().Output(writers)
}

// cancelAndRelease returns a function that calls cancel. If the cause is that the claim is lost,
// the function also releases the advisory locks, without waiting for the release. Other runs may be
// granted the resources then, and need not wait for the handler to return.
func cancelAndRelease(cancel context.CancelCauseFunc, f *firing,
	lock *locking.Lock) context.CancelCauseFunc {
	return func(cause error) {
		cancel(cause)
		if errors.Is(cause, jobs.ErrClaimLost) {
			go release(f, lock) // the caller has locked active
		}
	}
}

// awaitWorker takes a worker for a firing that has begun early. The context is that of the attempt.
func (p performer) awaitWorker(ctx context.Context, f *firing) error {
	if f.worker.has {
		return nil
	}
	start := f.spans.now()
	err := f.worker.ensure(ctx)
	f.spans.step("worker", start, err)
	if err != nil && ctx.Err() == nil {
		f.entry.quickness.add(workerTimeout)
	}
	return err
}

// mayRunElsewhere reports whether a run that got no worker may run on another replica: the context
// of its attempt has not ended, or has ended only because this replica stops.
func mayRunElsewhere(ctx context.Context) bool {
	return context.Cause(ctx) == nil || isStopped(ctx)
}

// isStopped reports whether the context of an attempt has ended because this replica stops.
func isStopped(ctx context.Context) bool { return errors.Is(context.Cause(ctx), jobs.ErrShutdown) }

// callTraced calls the handler and gives the worker back, and the slot for late runs with it. The
// next firing starts while this end is recorded. Limits on runs count this one until then.
func callTraced(ctx context.Context, f *firing, c *claim, handler jobs.HandlerFunc,
	run *jobs.Run) (ended outcome, leftBehind bool) {
	traced, leave := f.spans.handler(ctx, c.token)
	ended, leftBehind = call(traced, f.entry.quickness.measure(handler), run, f.entry.Timeout)
	ended.err, ended.detail = f.entry.mask.Error(ended.err), f.entry.mask.Text(ended.detail)
	f.worker.endCall()
	leave(ended)
	return ended, leftBehind
}

// call calls the handler and waits for it, at most for the timeout if there is one. It abandons a
// handler that does not return after its context has ended.
func call(ctx context.Context, handler jobs.HandlerFunc, run *jobs.Run,
	timeout time.Duration) (o outcome, leftBehind bool) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, timeoutError{timeout})
		defer cancel()
	}
	returned := make(chan error, 1)
	go func() {
		err := errExited
		defer func() { returned <- err }()
		err = protect(ctx, handler, run)
	}()
	select {
	case err := <-returned:
		return outcomeOf(ctx, run, err), false
	case <-ctx.Done():
	}
	select {
	case err := <-returned:
		return outcomeOf(ctx, run, err), false
	case <-time.After(abandonAfter):
		return outcomeOf(ctx, run, errAbandoned), true
	}
}

// errExited is the error of a handler that has not returned, as after FailNow of a test.
var errExited = errors.New("the handler ended its goroutine (runtime.Goexit)")

// protect calls the handler and returns its panic as an error. It does the same if a method of the
// handler's error panics, such as that of a nil pointer.
func protect(ctx context.Context, handle jobs.HandlerFunc, run *jobs.Run) error {
	err := catch(run, func() error { return handle(ctx, run) })
	if err == nil {
		return nil
	}
	return catch(run, func() error {
		_ = err.Error()
		judge(ctx, err)
		return err
	})
}

// catch calls fn and returns its panic as an error.
func catch(run *jobs.Run, fn func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &jobs.PanicError{Value: value, Stack: debug.Stack()}
			run.Log().Error().Msgf("%s\n%s", err, debug.Stack())
		}
	}()
	return fn()
}

// mayRetry reports whether the job's policy allows another attempt of the run after this end, and
// after which delay. Another replica may execute that attempt. began is when the first attempt of
// this replica began.
func mayRetry(f *firing, o outcome, began time.Time) (delay time.Duration, again bool) {
	if o.state != jobs.Failed && o.state != jobs.TimedOut {
		return 0, false
	}
	var refused *triggerParamsError
	if errors.As(o.err, &refused) {
		return 0, false
	}
	if f.retries == nil {
		f.retries = f.entry.Retry.Start(began)
	}
	delay, again = f.retries.Next(time.Now())
	return delay, again && (f.entry.Retry.Attempts == 0 || f.attempt < f.entry.Retry.Attempts)
}

// logEnd logs the end of an attempt. If none follows, it is the end of the run.
func logEnd(f *firing, run *jobs.Run, o outcome, took time.Duration, again bool) {
	var event *zerolog.Event
	if o.state == jobs.Succeeded {
		event = f.info()
	} else {
		event = f.warn().AnErr("error", o.err)
	}
	message := "run ended"
	if again {
		message = "attempt ended, another one follows"
	}
	event.Str("state", string(o.state)).Str("reason", string(o.reason)).
		Int64("token", int64(run.Token)).
		Int("attempt", run.Attempt).Dur("took", took).Msg(message)
}
