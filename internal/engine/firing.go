package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/batch"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// firing is a firing that this replica executes, from gate to release. It belongs to one goroutine.
type firing struct {
	pending
	run     uuid.UUID
	session *liveSession
	worker  worker
	log     *zerolog.Logger // of the replica: see MarshalZerologObject
	// expected announces its first start, so that firings that are due together start in one batch.
	expected *batch.Expected
	spans    *runSpans     // nil if it is not traced
	begun    bool          // an attempt has started
	requeued time.Time     // when its last attempt ended; zero before the second attempt
	written  bool          // the store has a row of it
	noted    *jobs.Blocker // the blocker that the store has recorded
	asked    time.Time     // when this attempt began to lock
	first    firstTry
	turn     firstTurn
	retries  *retry.Series // nil until an attempt has failed
	unlocked bool          // its last try met advisory locks, and only the store can decide
	met      locking.Owner // the holder of these locks
	woken    string        // the released resource for which it was woken, until its next try
}

// MarshalZerologObject adds the fields of each line about the firing. A firing that succeeds writes
// one line only. So it has no logger of its own, whose fields would be formatted before.
func (f *firing) MarshalZerologObject(e *zerolog.Event) {
	e.Str("job", f.entry.Name).Stringer("run", f.run).Time("scheduled_at", f.ScheduledAt)
	if f.spans != nil {
		e.Str("trace_id", TraceID(f.run))
	}
}

func (f *firing) debug() *zerolog.Event { return f.log.Debug().EmbedObject(f) }
func (f *firing) info() *zerolog.Event  { return f.log.Info().EmbedObject(f) }
func (f *firing) warn() *zerolog.Event  { return f.log.Warn().EmbedObject(f) }
func (f *firing) error() *zerolog.Event { return f.log.Error().EmbedObject(f) }

// executor executes the firings of a replica. It has one field for each step, and what decides
// between the steps. It may be used concurrently.
type executor struct {
	clock    *clusterClock
	table    *cronTable
	tracing  Tracing // nil: no tracing
	events   *events
	locks    advisoryLocks
	overlaps overlaps
	starts   starter
	notes    *notes
	waits    waiter
	attempts performer
	wakes    *wakes
}

// execute starts firings that begin at the same time on their way: gate, lock, start, run, finish,
// release. The caller has taken a worker for each, unless it begins early. Each firing runs in a
// goroutine of its own when its first try has ended. execute adds these goroutines to running, and
// does not wait for them.
func (x *executor) execute(stop context.Context, all []*firing, running *sync.WaitGroup) {
	for _, f := range all {
		startSpans(x.tracing, f, x.clock)
	}
	begin := func(firings []*firing) {
		x.locks.tryTogether(stop, firings, func(f *firing) {
			running.Go(func() { x.executeOne(stop, f) })
		})
	}
	first := slices.DeleteFunc(all, func(f *firing) bool {
		if !f.isBehind() {
			return false
		}
		running.Go(func() {
			f.expected.End() // the firing before may be in the batch
			f.awaitTurn(stop)
			begin([]*firing{f})
		})
		return true
	})
	begin(first)
}

// executeOne runs a firing to its end after its first try. It gives the worker back while it waits
// and when it returns. The end of stop ends waiting: another replica may adopt the run.
func (x *executor) executeOne(stop context.Context, f *firing) {
	defer x.wakes.left(f)
	defer f.done()
	defer x.handOver(f)
	defer f.worker.slots.leave()
	defer f.giveBack()
	defer f.expected.End()
	defer f.spans.finish()
	if f.first.gone {
		return
	}
	x.events.taken(f)
	var began time.Time
	for {
		c := x.obtain(stop, f)
		if c == nil {
			return
		}
		if f.tooLate(x.clock.now()) {
			x.attempts.decline(f, c)
			return
		}
		if f.begun = true; began.IsZero() {
			began = time.Now()
			f.worker.slots.started()
		}
		delay, again := x.attempts.perform(f, c, began)
		if !again {
			return
		}
		f.spans.next()
		waiting := f.spans.now()
		f.requeued = x.clock.now()
		x.handOver(f)
		if !x.waits.sleep(stop, f, delay) {
			return
		}
		f.spans.step("retry_wait", waiting, nil)
		f.attempt++
		f.since = x.clock.now()
	}
}

// handOver wakes firings that wait for what an attempt of the firing had.
func (x *executor) handOver(f *firing) {
	if f.begun {
		x.locks.held.released(f.entry.requests)
		x.waits.handover.released(f.entry.requests)
	}
}

// obtain locks the resources and starts the run. While they are held, it waits by the job's policy.
// It returns nil if the firing was skipped, belongs to another replica, or is left to others.
func (x *executor) obtain(stop context.Context, f *firing) *claim {
	if !f.first.tried {
		f.asked = time.Now()
	}
	defer x.waits.passOn(f)
	defer f.endTurn()
	policy, rowHeld, overlapped := newWaitPolicy(f, f.asked), false, 0
	var blocked *refusal
	for {
		var lock *locking.Lock
		found := x.locks.known(f, blocked)
		if found == nil && !x.waits.resume(stop, f, blocked) || !x.mayStart(f, policy, blocked) {
			return nil
		}
		if found == nil {
			lock, found = x.locks.take(stop, f, blocked)
		}
		if stop.Err() != nil {
			release(f, lock)
			x.notes.leave(f, blocked)
			return nil
		}
		if found == nil && f.unlocked {
			f.expected.End()
			var delay time.Duration
			if found, delay = x.overlaps.decide(f, overlapped, x.clock.now()); delay > 0 {
				overlapped++
				if !x.waits.sleepBehind(stop, f, delay) {
					x.notes.leave(f, blocked)
					return nil
				}
				continue
			}
		}
		if found == nil {
			asked := time.Now()
			token, refused, err := x.starts.start(stop, f, rowHeld)
			if token != 0 {
				x.locks.granted(f)
				f.woken = ""
				return &claim{token: token, lock: lock, granted: time.Now()}
			}
			release(f, lock)
			rowHeld = errors.Is(err, storage.ErrRowHeld)
			if err != nil {
				if !x.startsAgain(stop, f, err, blocked) {
					return nil
				}
				continue
			}
			found = refused
			x.locks.refused(f, found, asked)
		}
		if blocked == nil {
			x.locks.held.blocked.Add(1)
			defer x.locks.held.blocked.Add(-1)
		}
		blocked = found
		f.expected.End()
		f.endTurn()
		if found.names(f.woken) {
			f.woken = ""
		}
		x.waits.passOn(f)
		delay, end := policy.next(found, x.clock.now())
		if end != "" {
			f.giveBack() // the record takes time and needs no worker
			x.notes.skip(f, policy, found, end)
			return nil
		}
		if !x.waits.waitFor(stop, f, policy, found, delay) {
			return nil
		}
	}
}

// mayStart reports whether the firing may still start. If not, it records the reason: its job was
// removed from the configuration, or its limit has passed. The record takes time and needs neither
// a worker nor the locks of the first try.
func (x *executor) mayStart(f *firing, policy *waitPolicy, blocked *refusal) bool {
	switch {
	case !f.begun && x.table.removed(f.entry):
		f.giveBack()
		release(f, f.first.lock)
		x.notes.skip(f, policy, &refusal{reason: reasons.JobGone, detail: jobRemoved},
			reasons.JobGone)
	case f.tooLate(x.clock.now()):
		f.giveBack()
		release(f, f.first.lock)
		x.notes.miss(f, policy, blocked)
	default:
		return true
	}
	return false
}

// startsAgain reports whether to ask the store again after a start that ended with err. It first
// waits until that is of use.
func (x *executor) startsAgain(stop context.Context, f *firing, err error, blocked *refusal) bool {
	switch {
	case errors.Is(err, errSuspended):
		return x.waits.awaitOperator(stop, f)
	case errors.Is(err, storage.ErrRowHeld):
		if x.waits.sleep(stop, f, startBackoff) {
			return true
		}
		x.notes.leave(f, blocked)
	}
	return false
}
