package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

const (
	// outlives the clock differences of replicas; a lost gate costs one useless start
	gateTTL      = time.Minute
	noteAfter    = time.Second // who waits longer is written down as waiting
	startBackoff = 200 * time.Millisecond
)

// errEnded says that the firing needs nothing more from this replica.
var errEnded = errors.New("firing has ended here")

// firing is the life of one firing on this replica, from gate to release. It
// belongs to one goroutine.
type firing struct {
	*engine
	pending
	run        uuid.UUID
	session    *liveSession
	log        zerolog.Logger
	waitPolicy waitPolicy
	noted      *Blocker // what the store says that it waits for
	idle       bool     // it has given its worker back
	begun      bool     // it has started, now or in an earlier attempt
	written    bool     // the store has a row of it
	aside      bool     // an operator keeps this replica from starting it, and no other begins it
	rowHeld    bool     // its last start was refused with ErrRowHeld

	attempts   *retry.Series // of the handler
	retryDelay time.Duration // before the next of them

	runSpans *runSpans // nil where it is not traced
	asked    time.Time // when this attempt began to ask for its locks
	granted  time.Time // when it got its claim
}

// live takes the firing through its life. The caller has taken a worker for
// it, which live gives back while it waits and when it returns. Stop ends
// waiting: another replica may take the firing over.
func (f *firing) live(stop context.Context) {
	defer f.done()
	defer f.giveBack()
	f.follow()
	defer f.runSpans.finish()
	if f.adopted == uuid.Nil && !f.gate(stop) {
		return
	}
	f.tellTaken()
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

// gate asks whether this replica is the one to fire. Only a clear no ends the
// firing here: an error may be a lost reply, or no memcached, and then the
// store decides.
func (f *firing) gate(ctx context.Context) bool {
	if f.locker == nil {
		return true
	}
	begun := f.runSpans.now()
	won, err := f.locker.Gate(ctx, f.firing.gateName(f.entry.activeVersion.version.Load()), gateTTL)
	f.runSpans.step("claim", begun, err)
	return won || err != nil
}

// gateName is the same on every replica that has the same definition: one with
// an older definition, which may not start the firing, must not win it.
func (f Firing) gateName(version int64) string {
	return fmt.Sprintf("%s@%d@%d", f.Job, f.ScheduledAt.UnixMicro(), version)
}

// obtain locks the resources and starts the run, waiting by the job's policy
// while they are held. It returns errEnded when the firing was skipped, is
// somebody else's, or is left to others.
func (f *firing) obtain(stop context.Context) (Token, *locking.Lock, error) {
	f.wait()
	f.asked = time.Now()
	var blocked *blockage
	for {
		if !f.begun && f.entry.spec == nil && f.controlState.table.get(f.firing.Job) == nil {
			gone := &blockage{reason: ReasonJobGone,
				detail: "the configuration no longer has its job"}
			f.skip(gone, ReasonJobGone)
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
			var token Token
			begun = f.runSpans.now()
			token, found = f.start(stop)
			f.runSpans.asked(begun, token, found)
			if token != 0 {
				f.granted = time.Now()
				return token, lock, nil
			}
			f.release(lock)
		}
		if found == nil && f.aside && f.stepAside(stop) {
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

// leave writes a firing that a stopping replica has not started down as
// waiting, for another to adopt.
func (f *firing) leave(b *blockage) {
	if f.session.Context().Err() != nil {
		return
	}
	if b == nil {
		b = &blockage{reason: ReasonShutdown,
			detail: "left by " + f.replica + ", which is stopping"}
	}
	if f.note(Waiting, b, b.detail) {
		f.runSpans.ended(Waiting, b.reason, nil)
	}
}

// lock takes the stage-1 locks, or says what is in the way. Without stage 1,
// or when it can't be asked, there is no lock and the store decides. While this
// machine's clock is off nothing is to start.
func (f *firing) lock(ctx context.Context, before *blockage) (*locking.Lock, *blockage) {
	if err := f.clockLimit.check(time.Now()); err != nil {
		return nil, &blockage{reason: ReasonClockOff, detail: err.Error()}
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
		reason := ReasonLockHeld
		if held.Holder.Job == f.entry.Name {
			if reason = ReasonOverlap; f.entry.Overlap == OverlapSkip || before == nil ||
				before.reason != ReasonOverlap {
				// it may be this very firing on another replica, or one waits already: the store
				// knows
				return nil, nil
			}
		} else if before == nil && f.neverGivesWay() {
			// only the store knows whether an earlier firing of the job waits already
			return nil, nil
		}
		return nil, &blockage{reason: reason,
			blocker: &Blocker{Resource: held.Resource.String(), Holder: held.Holder.Owner}}
	case f.skipUnavailable:
		return nil, &blockage{reason: ReasonLocksUnavailable, detail: err.Error()}
	default:
		return nil, nil
	}
}

func (f *firing) tryLock(ctx context.Context) (*locking.Lock, error) {
	owner := locking.Owner{Replica: f.replica, Job: f.entry.Name, Run: f.run.String()}
	return f.locker.TryAcquireIn(ctx, f.session.ID, owner, f.entry.requests)
}

// stillHeld asks stage 1 whether the run that the store named still has its
// lock, so that polling stays off the store. Where stage 1 can't tell, the
// store is asked again.
func (f *firing) stillHeld(ctx context.Context, b *Blocker) bool {
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

// start asks the store for the claim. It returns a token, or what is in the
// way, or neither: then the firing has ended for this replica, or rowHeld or
// aside say that it goes on.
//
// While it is not known whether an earlier try took effect, it keeps the worker
// and asks for as long as the session lives, however late the firing is: the run
// may have its claim already, and would be executed by nobody. After stop it asks
// for a session's TTL at most.
func (f *firing) start(stop context.Context) (Token, *blockage) {
	request := StartRequest{
		Run: f.run, Firing: f.firing, Version: f.startVersion(), Attempt: f.attempt,
		Requests: f.entry.requests, WaitSince: f.since, Reserve: f.entry.reserve(),
	}
	var stopped time.Time
	for unknown := false; ; {
		result, err := f.starts.ask(f.session.Context(), sessionCall[StartRequest]{f.session.ID, request},
			f.rowHeld)
		f.rowHeld = errors.Is(err, ErrRowHeld)
		unknown = unknown || !f.rowHeld
		switch {
		case err == nil:
			return f.started(result)
		case f.session.Context().Err() != nil:
			return 0, nil
		case !errors.Is(err, ErrUnavailable):
			f.fail(err)
			return 0, nil
		case !unknown: // the store has answered that it did nothing
			return 0, nil
		}
		if stopped.IsZero() && stop.Err() != nil {
			stopped = time.Now()
		}
		if !stopped.IsZero() && time.Since(stopped) > f.ttl {
			f.log.Warn().Err(err).Msg("outcome of the start is unknown, the replica stops " +
				"without it")
			return 0, nil
		}
		pause(f.session.Context(), startBackoff)
	}
}

// fail records a start that the store will never take.
func (f *firing) fail(err error) {
	f.log.Error().Err(err).Msg("start refused by the store")
	f.write(Note{State: Failed, Detail: "the store refused the start", Error: err.Error()})
}

func (f *firing) started(result StartResult) (Token, *blockage) {
	f.aside = false
	switch result.Outcome {
	case StartGranted:
		f.written = true
		f.active.add(result.Token, f.run, func(error) {}) // until perform has a context to cancel
		return result.Token, nil
	case StartBlocked:
		f.noted, f.written = result.Blocker, true
		return 0, &blockage{
			reason: result.Reason, blocker: result.Blocker, granted: true, queued: result.Queued,
			reservedUntil: time.Now().Add(result.Reserved),
		}
	case StartDuplicate:
		f.tellTakenAway()
	case StartStale:
		f.doubt() // this replica has not heard yet which definition is active
	case StartPaused:
		f.controlState.look() // nor what was paused
		f.aside = f.adopted == uuid.Nil && !f.written
	case StartNotLive:
		f.session.MarkLost(fmt.Errorf("%w: it is not live in the store", ErrSessionLost))
	}
	return 0, nil
}

// startVersion is 0 for runs that the store holds already: whoever wrote
// them had the right definition.
func (f *firing) startVersion() int64 {
	if f.adopted != uuid.Nil {
		return 0
	}
	return f.entry.activeVersion.version.Load()
}

// waitFor gives the worker back until the next try, and writes the firing
// down as waiting once it has waited long enough for somebody to wonder.
func (f *firing) waitFor(stop context.Context, b *blockage, delay time.Duration) bool {
	waited := f.clock.now().Sub(f.since)
	if waited+delay > noteAfter && (f.noted == nil || b.blocker == nil || *f.noted != *b.blocker) {
		if !f.note(Waiting, b, "") {
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

// skip records that the firing did not run, what was in its way, and why it
// waits no more.
func (f *firing) skip(b *blockage, end Reason) {
	detail := b.words()
	if b.final(f) == "" && b.reason != "" {
		detail = fmt.Sprintf("%s; tried %d times in %s", detail, f.waitPolicy.tries.Attempts(),
			f.clock.now().Sub(f.since).Round(time.Millisecond))
	}
	switch {
	case end == ReasonDeadline, f.limited() && end != ReasonJobGone:
		detail = f.lateWords(detail)
	case end == ReasonSuperseded:
		detail += fmt.Sprintf("; it waited on until %s, and gave way to a later scheduled time",
			f.waitPolicy.until.Format(time.RFC3339))
	}
	state := Skipped
	if f.attempt > 1 { // it has run before: what is skipped is only another attempt
		state, detail = Failed, fmt.Sprintf("attempt %d did not start: %s", f.attempt, detail)
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

// note writes the firing's state to the store and reports whether the firing
// is still this replica's to care for.
func (f *firing) note(state State, b *blockage, detail string) bool {
	return f.write(Note{State: state, Reason: b.reason, Detail: detail, Blocker: b.blocker,
		Requests: f.entry.requests})
}

func (f *firing) write(n Note) bool {
	n.Run, n.Firing, n.Version = f.run, f.firing, f.startVersion()
	n.WaitSince, n.Reserve = f.since, f.entry.reserve()
	for held := false; ; {
		stands, err := f.notes.ask(f.session.Context(), sessionCall[Note]{f.session.ID, n}, held)
		held = errors.Is(err, ErrRowHeld)
		if err == nil {
			f.written = f.written || stands
			if stands && n.State.Final() {
				f.tellUnstarted(n)
				f.runSpans.ended(n.State, n.Reason, nil)
			}
			if !stands {
				f.tellTakenAway()
			}
			return stands
		}
		if !errors.Is(err, ErrUnavailable) || f.session.Context().Err() != nil {
			f.log.Warn().Err(err).Str("state", string(n.State)).Msg("firing not written down")
			return false
		}
		pause(f.session.Context(), startBackoff)
	}
}

// rest gives the worker back for d, and reports whether the firing goes on;
// if so it has a worker again.
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

// tryWork takes a worker and what it needs beside, if all of it is free.
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

// takeWork waits for what it needs beside a worker, and then for the worker,
// which it would keep from others meanwhile.
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

// queue waits for a worker. For how long nobody knows: until then others need
// not wait behind this firing. So it withdraws what it wants; its next start
// puts that back, at its old place. Without a worker it goes on where its
// deadline has passed.
func (f *firing) queue(stop context.Context) bool {
	if !f.write(Note{State: Waiting, Reason: ReasonNoWorker}) {
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

// giveBack returns the worker and what the firing has beside, if it has one.
func (f *firing) giveBack() {
	if !f.idle {
		f.idle = true
		f.hold.giveBack()
		f.workers.release()
	}
}

// release gives the stage-1 locks back; what can't be is left to its expiry.
func (f *firing) release(lock *locking.Lock) {
	if lock == nil {
		return
	}
	if err := lock.Release(context.WithoutCancel(f.session.Context())); err != nil {
		f.log.Debug().Err(err).Msg("locks not released, they expire")
	}
}
