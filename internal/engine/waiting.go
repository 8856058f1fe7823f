package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const noteAfter = time.Second // a firing that waits longer is recorded as waiting

// waiter lets firings wait. A waiting firing has no worker.
type waiter struct {
	replica      string
	clock        *clusterClock
	controlState *controlState
	intervals    *pollIntervals
	notes        *notes
	handover     *handover
	held         *heldLocks
}

// waitFor waits for the blocker until the next try, or until the resource is free. While this
// replica looks at the lock of the resource, the firing rests: tries would find nothing new, so
// they are only counted. waitFor records the firing as waiting once the wait is longer than
// noteAfter. It reports whether the firing goes on. The firing has no worker then.
func (w waiter) waitFor(stop context.Context, f *firing, policy *waitPolicy, b *refusal,
	delay time.Duration) bool {
	start := f.spans.now()
	var wake <-chan struct{}
	if b.blocker != nil {
		// before the note, which takes time: a release meanwhile must not be missed
		var leave func() (woken bool)
		wake, leave = w.handover.wait(b.blocker.Resource, f.position())
		defer func() {
			if leave() {
				f.woken = b.blocker.Resource
			}
		}()
		if !b.granted && w.held.watches(b.blocker.Resource, f.position(), f.entry.requests) {
			delay = policy.rest(b, w.clock.now())
			defer func() { policy.catchUp(b, w.clock.now()) }()
		}
	}
	waited := w.clock.now().Sub(f.since)
	if waited+delay > noteAfter && (f.noted == nil || b.blocker == nil || *f.noted != *b.blocker) {
		if !w.notes.note(f, jobs.Waiting, b, "") {
			return false
		}
		f.noted = b.blocker
	}
	if !idle(stop, f, delay, wake) {
		w.notes.leave(f, b)
		return false
	}
	f.spans.waited(start, b)
	return true
}

// passOn wakes the next firing that waits for the resource for which this one was woken, if this
// one did not take it.
func (w waiter) passOn(f *firing) {
	if f.woken != "" {
		w.handover.wake(f.woken)
		f.woken = ""
	}
}

// resume takes a worker for a firing that has waited for the blocker, or nil. It reports whether
// the firing goes on.
func (w waiter) resume(stop context.Context, f *firing, b *refusal) bool {
	if f.worker.mayStart() || w.takeWorker(stop, f) {
		return true
	}
	w.notes.leave(f, b)
	return false
}

// awaitOperator waits while an operator keeps this replica from starting a firing that has passed
// its gate. The store has no row of the firing, so no other replica begins it. It reports whether
// to try again. A drained replica records the firing for other replicas to adopt. After a long
// pause the misfire policy decides.
func (w waiter) awaitOperator(stop context.Context, f *firing) bool {
	for {
		more := idle(stop, f, w.intervals.controlState, nil)
		_, paused := w.controlState.paused(f.entry.Name, f.entry.Group)
		switch {
		case !more:
			if !paused {
				w.notes.leave(f, nil)
			}
			return false
		case f.entry.overdue(f.ScheduledAt, w.clock.now()), f.entry.gone.Load():
			return false
		case paused:
			continue
		case w.controlState.draining():
			w.notes.leave(f, &refusal{reason: reasons.Shutdown,
				detail: "replica " + w.replica + " was drained before it started the run"})
			return false
		}
		return w.takeWorker(stop, f)
	}
}

// sleep gives the worker back for d and takes one again. It reports whether the firing continues,
// with a worker.
func (w waiter) sleep(stop context.Context, f *firing, d time.Duration) bool {
	return idle(stop, f, d, nil) && w.takeWorker(stop, f)
}

// sleepBehind lets a firing sleep that has met another run of its job. It reports whether the
// firing goes on. The firing keeps its worker, because it keeps its turn: see firstTurn. The sleep
// is traced as a wait for that run.
func (w waiter) sleepBehind(stop context.Context, f *firing, d time.Duration) bool {
	start := f.spans.now()
	if !rest(stop, f, d, nil) {
		return false
	}
	f.spans.waited(start, f.overlap())
	return true
}

// idle gives the worker back for d, or until wake is closed. It reports whether the firing goes on.
func idle(stop context.Context, f *firing, d time.Duration, wake <-chan struct{}) bool {
	f.giveBack()
	return rest(stop, f, d, wake)
}

// rest waits for d, or until wake is closed. It reports whether the firing goes on.
func rest(stop context.Context, f *firing, d time.Duration, wake <-chan struct{}) bool {
	timer := sleep.Timer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-f.session.Context().Done():
		return false
	case <-stop.Done():
		return false
	}
	return f.session.Context().Err() == nil && stop.Err() == nil
}

// takeWorker takes a worker again, or queues for one.
func (w waiter) takeWorker(stop context.Context, f *firing) bool {
	return f.worker.tryTake() || w.queue(stop, f)
}

// queue waits for a worker. That wait has no known end, so other firings need not wait behind this
// one. The firing withdraws its lock requests, and its next start restores them at its old
// position. A firing without a row has none to withdraw, and is recorded only if it does not get a
// worker soon. If its time limit passes before it gets a worker, the firing goes on without one, so
// that its end is recorded.
func (w waiter) queue(stop context.Context, f *firing) bool {
	ctx, cancel := context.WithCancel(f.session.Context())
	defer cancel()
	defer context.AfterFunc(stop, cancel)()
	if by := f.startBy(); !by.IsZero() {
		const beyond = time.Millisecond
		var timeout context.CancelFunc
		ctx, timeout = context.WithTimeout(ctx, by.Sub(w.clock.now())+beyond)
		defer timeout()
	}
	if w.takeSoon(ctx, f) {
		return true
	}
	if ctx.Err() == nil {
		if !w.notes.write(f, storage.Note{State: jobs.Waiting, Reason: reasons.NoWorker}) {
			return false
		}
		f.noted = nil
	}
	return f.worker.take(ctx) == nil ||
		stop.Err() == nil && f.session.Context().Err() == nil && f.tooLate(w.clock.now())
}

// takeSoon takes a worker for a firing without a row, unless it must be recorded before. It reports
// whether the firing has a worker.
func (w waiter) takeSoon(ctx context.Context, f *firing) bool {
	left := noteAfter - w.clock.now().Sub(f.since)
	if left <= 0 || f.written || f.adopted != uuid.Nil {
		return false
	}
	soon, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return f.worker.take(soon) == nil
}
