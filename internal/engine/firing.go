package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

const (
	// longer than the clock differences of replicas; a lost gate costs one useless start
	gateTTL      = time.Minute
	noteAfter    = time.Second // a firing that waits longer is recorded as waiting
	startBackoff = 200 * time.Millisecond
)

// errEnded says that this replica has nothing more to do for the firing.
var errEnded = errors.New("firing has ended here")

// firing executes one firing on this replica, from gate to release. It belongs to one goroutine.
type firing struct {
	*engine
	pending
	run        uuid.UUID
	session    *liveSession
	log        zerolog.Logger
	waitPolicy waitPolicy
	noted      *jobs.Blocker // the blocker that the store has recorded
	idle       bool          // it has no worker
	begun      bool          // an attempt has started
	written    bool          // the store has a row of it
	// an operator keeps this replica from starting it, and no other replica begins it
	suspended bool
	rowHeld   bool // the last start returned ErrRowHeld

	attempts   *retry.Series // of the handler
	retryDelay time.Duration // delay before the next attempt

	runSpans *runSpans // nil if it is not traced
	asked    time.Time // when this attempt began to lock
	granted  time.Time // when it got its claim
}

// execute runs the firing to its end. The caller has taken a worker for it; execute gives the
// worker back while it waits and when it returns. The end of stop ends waiting: another replica may
// adopt the run.
func (f *firing) execute(stop context.Context) {
	defer f.done()
	defer f.giveBack()
	f.startSpans()
	defer f.runSpans.finish()
	if f.adopted == uuid.Nil && !f.gate(stop) {
		return
	}
	f.publishTaken()
	f.attempts = f.entry.Retry.Start(time.Now())
	for {
		token, lock, err := f.obtain(stop)
		if err != nil {
			return
		}
		if f.tooLate() {
			f.decline(token, lock)
			return
		}
		f.begun = true
		again := f.perform(token, lock)
		if !again {
			return
		}
		f.runSpans.next()
		begun := f.runSpans.now()
		if !f.rest(stop, f.retryDelay) {
			return
		}
		f.runSpans.step("rest", begun, nil)
		f.attempt++
		f.since = f.clock.now()
	}
}

// gate reports whether this replica may fire. Only a clear refusal ends the firing on this replica.
// An error may be a lost reply or a failed memcached; then the store decides.
func (f *firing) gate(ctx context.Context) bool {
	if f.locker == nil {
		return true
	}
	begun := f.runSpans.now()
	won, err := f.locker.Gate(ctx, gateName(f.firing, f.entry.activeVersion.version.Load()),
		gateTTL)
	f.runSpans.step("claim", begun, err)
	return won || err != nil
}

// gateName returns the gate of the firing. It is the same on every replica with the same
// definition. A replica with an older definition may not start the firing, so it must not win the
// same gate.
func gateName(f jobs.Firing, version int64) string {
	return fmt.Sprintf("%s@%d@%d", f.Job, f.ScheduledAt.UnixMicro(), version)
}

// obtain locks the resources and starts the run. While they are held, it waits by the job's policy.
// It returns errEnded if the firing was skipped, belongs to another replica, or is left to others.
func (f *firing) obtain(stop context.Context) (jobs.Token, *locking.Lock, error) {
	f.wait()
	f.asked = time.Now()
	var blocked *refusal
	for {
		if !f.begun && f.entry.spec == nil && f.controlState.table.get(f.firing.Job) == nil {
			gone := &refusal{reason: jobs.ReasonJobGone,
				detail: "the job was removed from the configuration"}
			f.skip(gone, jobs.ReasonJobGone)
			return 0, nil, errEnded
		}
		if f.tooLate() {
			f.miss(blocked)
			return 0, nil, errEnded
		}
		begun := f.runSpans.now()
		lock, found := f.lock(stop, blocked)
		f.runSpans.locked(begun, found)
		if stop.Err() != nil {
			f.release(lock)
			f.leave(blocked)
			return 0, nil, errEnded
		}
		if found == nil {
			var token jobs.Token
			begun = f.runSpans.now()
			token, found = f.start(stop)
			f.runSpans.asked(begun, token, found)
			if token != 0 {
				f.granted = time.Now()
				return token, lock, nil
			}
			f.release(lock)
		}
		if found == nil && f.suspended && f.awaitOperator(stop) {
			continue
		}
		if found == nil && f.rowHeld {
			if f.rest(stop, startBackoff) {
				continue
			}
			f.leave(blocked)
		}
		if found == nil {
			return 0, nil, errEnded
		}
		blocked = found
		delay, end := f.refused(found)
		if end != "" {
			f.skip(found, end)
			return 0, nil, errEnded
		}
		begun = f.runSpans.now()
		if !f.waitFor(stop, found, delay) {
			return 0, nil, errEnded
		}
		f.runSpans.waited(begun, found)
	}
}

// leave records a firing that a stopping replica has not started as waiting, for another replica to
// adopt.
func (f *firing) leave(b *refusal) {
	if f.session.Context().Err() != nil {
		return
	}
	if b == nil {
		b = &refusal{reason: jobs.ReasonShutdown,
			detail: "replica " + f.replica + " stopped before it started the run"}
	}
	if f.note(jobs.Waiting, b, b.detail) {
		f.runSpans.ended(jobs.Waiting, b.reason, nil)
	}
}

// lock takes the advisory locks, or returns what blocks them. If memcached is not used or does not
// answer, there is no lock and the store decides. While this machine's clock is off by more than
// its limit, nothing may start.
func (f *firing) lock(ctx context.Context, before *refusal) (*locking.Lock, *refusal) {
	if err := f.clockLimit.check(time.Now()); err != nil {
		return nil, &refusal{reason: jobs.ReasonClockOff, detail: err.Error()}
	}
	if f.locker == nil {
		return nil, nil
	}
	if before != nil && before.granted && f.stillHeld(ctx, before.blocker) {
		return nil, before
	}
	lock, err := f.tryLock(ctx)
	var held *locking.HeldError
	switch {
	case err == nil:
		return lock, nil
	case errors.As(err, &held):
		reason := jobs.ReasonLockHeld
		if held.Holder.Job == f.entry.Name {
			if reason = jobs.ReasonOverlap; f.entry.Overlap == jobs.OverlapSkip || before == nil ||
				before.reason != jobs.ReasonOverlap {
				// The holder may be this firing on another replica, or another firing may wait
				// already. The store knows.
				return nil, nil
			}
		} else if before == nil && f.hasNoNextTime() {
			// only the store knows whether an earlier firing of the job waits already
			return nil, nil
		}
		return nil, &refusal{reason: reason,
			blocker: &jobs.Blocker{Resource: held.Resource.String(), Holder: held.Holder.Owner}}
	case f.skipUnavailable:
		return nil, &refusal{reason: jobs.ReasonLocksUnavailable, detail: err.Error()}
	default:
		return nil, nil
	}
}

func (f *firing) tryLock(ctx context.Context) (*locking.Lock, error) {
	owner := locking.Owner{Replica: f.replica, Job: f.entry.Name, Run: f.run.String()}
	return f.locker.TryAcquireIn(ctx, f.session.ID, owner, f.entry.requests)
}

// stillHeld reports whether memcached still has the lock of the blocker that the store named. This
// keeps polling away from the store. If memcached does not answer, the store is asked again.
func (f *firing) stillHeld(ctx context.Context, b *jobs.Blocker) bool {
	if b == nil {
		return false
	}
	resource, err := locking.ParseDisplay(b.Resource)
	if err != nil {
		return false
	}
	holders, err := f.locker.Inspect(ctx, []locking.Resource{resource})
	return err == nil && b.Holder.Run != "" && holders[resource].Run == b.Holder.Run
}

// start requests the claim from the store. It returns a token, or the reason of a refusal, or
// neither. Neither means that the firing has ended for this replica, unless rowHeld or suspended is
// set.
//
// While the outcome of an earlier call is unknown, start keeps the worker and asks again for as
// long as the session lives, however late the firing is. The run may have its claim already, and no
// replica would execute it. After stop it asks for at most the TTL of a session.
func (f *firing) start(stop context.Context) (jobs.Token, *refusal) {
	request := storage.StartRequest{
		Run: f.run, Firing: f.firing, Version: f.startVersion(), Attempt: f.attempt,
		Requests: f.entry.requests, WaitSince: f.since, Reserve: f.entry.ReserveTime(),
	}
	var stopped time.Time
	for unknown := false; ; {
		result, err := f.starts.ask(f.session.Context(),
			sessionCall[storage.StartRequest]{f.session.ID, request},
			f.rowHeld)
		f.rowHeld = errors.Is(err, storage.ErrRowHeld)
		unknown = unknown || !f.rowHeld
		switch {
		case err == nil:
			return f.started(result)
		case f.session.Context().Err() != nil:
			return 0, nil
		case !errors.Is(err, storage.ErrUnavailable):
			f.fail(err)
			return 0, nil
		case !unknown: // the store answered that it did nothing
			return 0, nil
		}
		if stopped.IsZero() && stop.Err() != nil {
			stopped = time.Now()
		}
		if !stopped.IsZero() && time.Since(stopped) > f.ttl {
			f.log.Warn().Err(err).Msg("start has an unknown outcome, giving up at shutdown")
			return 0, nil
		}
		pause(f.session.Context(), startBackoff)
	}
}

// fail records a start that the store refuses for good.
func (f *firing) fail(err error) {
	f.log.Error().Err(err).Msg("start refused by the store")
	f.write(storage.Note{State: jobs.Failed, Detail: "the store refused the start",
		Error: err.Error()})
}

func (f *firing) started(result storage.StartResult) (jobs.Token, *refusal) {
	f.suspended = false
	switch result.Outcome {
	case storage.StartGranted:
		f.written = true
		f.active.add(result.Token, f.run, func(error) {}) // until perform has a context to cancel
		return result.Token, nil
	case storage.StartBlocked:
		f.noted, f.written = result.Blocker, true
		return 0, &refusal{
			reason: result.Reason, blocker: result.Blocker, granted: true, queued: result.Queued,
			reservedUntil: time.Now().Add(result.Reserved),
		}
	case storage.StartDuplicate:
		f.publishRevoked()
	case storage.StartStale:
		f.doubt() // this replica does not know the active definition yet
	case storage.StartPaused:
		f.controlState.requestPoll() // this replica does not know the pause yet
		f.suspended = f.adopted == uuid.Nil && !f.written
	case storage.StartNotLive:
		f.session.MarkLost(fmt.Errorf("%w: it is not live in the store", storage.ErrSessionLost))
	}
	return 0, nil
}

// startVersion returns the version for requests to the store: 0 for adopted runs, because the
// replica that recorded them had the active definition.
func (f *firing) startVersion() int64 {
	if f.adopted != uuid.Nil {
		return 0
	}
	return f.entry.activeVersion.version.Load()
}

// waitFor gives the worker back until the next try. It records the firing as waiting once the wait
// is longer than noteAfter.
func (f *firing) waitFor(stop context.Context, b *refusal, delay time.Duration) bool {
	waited := f.clock.now().Sub(f.since)
	if waited+delay > noteAfter && (f.noted == nil || b.blocker == nil || *f.noted != *b.blocker) {
		if !f.note(jobs.Waiting, b, "") {
			return false
		}
		f.noted = b.blocker
	}
	if f.rest(stop, delay) {
		return true
	}
	f.leave(b)
	return false
}

// skip records that the firing did not run, its blocker, and the reason for the end of its wait.
func (f *firing) skip(b *refusal, end jobs.Reason) {
	detail := b.words()
	if b.final(f) == "" && b.reason != "" {
		detail = fmt.Sprintf("%s; tried %d times in %s", detail, f.waitPolicy.tries.Attempts(),
			f.clock.now().Sub(f.since).Round(time.Millisecond))
	}
	switch {
	case end == jobs.ReasonDeadline, f.limited() && end != jobs.ReasonJobGone:
		detail = f.lateWords(detail)
	case end == jobs.ReasonSuperseded:
		detail += fmt.Sprintf("; it waited until %s, when a later scheduled time took its place",
			f.waitPolicy.until.Format(time.RFC3339))
	}
	state := jobs.Skipped
	if f.attempt > 1 { // it has run before, so only an attempt is skipped
		state, detail = jobs.Failed, fmt.Sprintf("attempt %d did not start: %s", f.attempt, detail)
	}
	ended := *b
	ended.reason = end
	if !f.note(state, &ended, detail) {
		return
	}
	event := f.log.Info().Str("state", string(state)).Str("reason", string(end))
	if b.blocker != nil {
		event = event.Str("resource", b.blocker.Resource).Str("holder_job", b.blocker.Holder.Job).
			Str("holder_replica", b.blocker.Holder.Replica).Str("holder_run", b.blocker.Holder.Run)
	}
	event.Msg("firing skipped")
}

// note records the firing's state in the store. It reports whether the firing still belongs to this
// replica.
func (f *firing) note(state jobs.State, b *refusal, detail string) bool {
	return f.write(storage.Note{State: state, Reason: b.reason, Detail: detail, Blocker: b.blocker,
		Requests: f.entry.requests})
}

func (f *firing) write(n storage.Note) bool {
	n.Run, n.Firing, n.Version = f.run, f.firing, f.startVersion()
	n.WaitSince, n.Reserve = f.since, f.entry.ReserveTime()
	for held := false; ; {
		stands, err := f.notes.ask(f.session.Context(), sessionCall[storage.Note]{f.session.ID, n},
			held)
		held = errors.Is(err, storage.ErrRowHeld)
		if err == nil {
			f.written = f.written || stands
			if stands && n.State.Final() {
				f.publishNotStarted(n)
				f.runSpans.ended(n.State, n.Reason, nil)
			}
			if !stands {
				f.publishRevoked()
			}
			return stands
		}
		if !errors.Is(err, storage.ErrUnavailable) || f.session.Context().Err() != nil {
			f.log.Warn().Err(err).Str("state", string(n.State)).Msg("record firing failed")
			return false
		}
		pause(f.session.Context(), startBackoff)
	}
}

// rest gives the worker back for d and takes one again. It reports whether the firing goes on, with
// a worker.
func (f *firing) rest(stop context.Context, d time.Duration) bool {
	return f.idles(stop, d) && f.takeUp(stop)
}

// idles gives the worker back for d, and reports whether the firing goes on.
func (f *firing) idles(stop context.Context, d time.Duration) bool {
	f.giveBack()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.session.Context().Done():
		return false
	case <-stop.Done():
		return false
	}
	return f.session.Context().Err() == nil && stop.Err() == nil
}

// takeUp takes a worker again, or waits for one as queue does.
func (f *firing) takeUp(stop context.Context) bool {
	f.idle = !f.tryWork()
	return !f.idle || f.queue(stop)
}

// tryWork takes a worker and the slots of the firing, if all of them are free.
func (f *firing) tryWork() bool {
	if !f.hold.tryTake() {
		return false
	}
	if f.workers.tryAcquire() {
		return true
	}
	f.hold.giveBack()
	return false
}

// takeWork waits for the slots of the firing and then for a worker. In this order the firing does
// not occupy a worker while it waits for a slot.
func (f *firing) takeWork(ctx context.Context) error {
	if err := f.hold.take(ctx); err != nil {
		return err
	}
	err := f.workers.acquire(ctx)
	if err != nil {
		f.hold.giveBack()
	}
	return err
}

// queue waits for a worker. That wait has no known end, so other firings need not wait behind this
// one. The firing withdraws its lock requests, and its next start restores them at its old
// position. Without a worker it goes on if its deadline has passed.
func (f *firing) queue(stop context.Context) bool {
	if !f.write(storage.Note{State: jobs.Waiting, Reason: jobs.ReasonNoWorker}) {
		return false
	}
	f.noted = nil
	ctx, cancel := context.WithCancel(f.session.Context())
	defer cancel()
	defer context.AfterFunc(stop, cancel)()
	if by := f.startBy(); !by.IsZero() {
		const beyond = time.Millisecond
		var timeout context.CancelFunc
		ctx, timeout = context.WithTimeout(ctx, by.Sub(f.clock.now())+beyond)
		defer timeout()
	}
	f.idle = f.takeWork(ctx) != nil
	return !f.idle || stop.Err() == nil && f.session.Context().Err() == nil && f.tooLate()
}

// giveBack returns the worker and the slots, if the firing has them.
func (f *firing) giveBack() {
	if !f.idle {
		f.idle = true
		f.hold.giveBack()
		f.workers.release()
	}
}

// release releases the advisory locks. A lock that cannot be released expires.
func (f *firing) release(lock *locking.Lock) {
	if lock == nil {
		return
	}
	if err := lock.Release(context.WithoutCancel(f.session.Context())); err != nil {
		f.log.Debug().Err(err).Msg("release advisory locks failed, they expire")
	}
}
