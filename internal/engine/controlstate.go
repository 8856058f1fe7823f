package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	listenBackoff = time.Second      // the first delay before listening again
	listenRarest  = 30 * time.Second // the longest delay
	// An idle replica polls after quietIntervals intervals while actions are announced, unless a
	// heartbeat reports no change.
	quietIntervals = 10
)

// controlState is the control state of this replica as last read. If it cannot be read, the replica
// keeps the last one. The store refuses starts that the control state forbids, even if this replica
// has not read it.
type controlState struct {
	control      controlReader
	session      func() uuid.UUID
	table        *cronTable
	activation   *activation
	active       *active
	heartbeatNow chan<- struct{} // the keeper's
	registry     *jobs.Registry
	build        func(text json.RawMessage) (jobs.Job, error)
	log          zerolog.Logger
	intervals    *pollIntervals

	// written by run's goroutine only
	pauses  atomic.Pointer[[]storage.Pause] // nil: none
	drained atomic.Bool

	listening atomic.Bool   // actions are announced
	polls     chan struct{} // holds a value when a poll is requested
	// called when an action was announced
	announced func()
	reread    atomic.Bool // added jobs must be built again
	// the generation that was last read; 0 for none; written by run's goroutine only
	read      atomic.Int64
	confirmed atomic.Pointer[time.Time] // time of the last heartbeat without a change

	// The following fields belong to run's goroutine.
	// by job, the version of its spec that this replica does not fire
	refused   map[string]int64
	cancelled map[uuid.UUID]string // the runs that were cancelled, with the actor
	rebuild   bool                 // build the jobs again with the next poll
	failing   bool
	enrolling bool // the store does not know all jobs of this replica yet
	watched   *watched
}

// paused returns the pause that covers a job of that group, if there is one. It may be called
// concurrently, as may draining and requestPoll.
func (o *controlState) paused(job, group string) (storage.Pause, bool) {
	for _, p := range o.activePauses() {
		if p.Covers(job, group) {
			return p, true
		}
	}
	return storage.Pause{}, false
}

// activePauses returns the active pauses. Callers must not change them.
func (o *controlState) activePauses() []storage.Pause {
	if pauses := o.pauses.Load(); pauses != nil {
		return *pauses
	}
	return nil
}

// draining reports whether this replica must start nothing except further attempts.
func (o *controlState) draining() bool { return o.drained.Load() }

// rebuildAdded requests that added jobs are built again, because they may use changed parts of the
// configuration.
func (o *controlState) rebuildAdded() {
	o.reread.Store(true)
	o.requestPoll()
}

// requestPoll requests a poll at once.
func (o *controlState) requestPoll() { signal(o.polls) }

// heard compares the reply to a heartbeat with the control state that was last read. If they agree,
// an idle replica needs no poll, else it polls at once. It may be called concurrently.
func (o *controlState) heard(generation int64, draining bool) {
	if generation != o.read.Load() || draining != o.drained.Load() {
		o.requestPoll()
		return
	}
	now := time.Now()
	o.confirmed.Store(&now)
}

// run polls and obeys the control state until ctx ends.
func (o *controlState) run(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { o.listen(ctx) })
	interval := o.intervals.controlState
	begin := time.Now()
	// The regular polls keep their times, whatever polls were requested in between.
	regular := func(after time.Time) time.Time {
		return begin.Add((after.Sub(begin)/interval + 1) * interval)
	}
	quiet := quietIntervals*interval - interval/2
	for last, next := begin, regular(begin); ; {
		timer := sleep.Timer(time.Until(next))
		requested, busy := false, false
		select {
		case <-timer.C:
		case <-o.polls:
			requested = true
		case <-o.active.busy: // the planned poll may be too late for the run that has begun
			busy = true
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		due := !time.Now().Before(next) && (!o.mayWait() || time.Since(o.known(last)) >= quiet)
		if requested || due {
			last = time.Now()
			o.poll(ctx)
		}
		if next = regular(time.Now()); !busy && o.active.awaitBusy() && o.mayWait() {
			next = regular(o.known(last).Add(quiet))
		}
	}
}

// known returns the time of the last poll, or of a later heartbeat that makes it unnecessary.
func (o *controlState) known(last time.Time) time.Time {
	if at := o.confirmed.Load(); at != nil && at.After(last) {
		return *at
	}
	return last
}

// mayWait reports whether nothing is likely to have changed for this replica: actions are
// announced, and it has no run that could be cancelled or watched.
func (o *controlState) mayWait() bool {
	return o.listening.Load() && o.active.len() == 0 && !o.failing && !o.enrolling
}

// listen requests a poll when the store announces an action. While it cannot listen, the regular
// polls find the actions.
func (o *controlState) listen(ctx context.Context) {
	for delay := listenBackoff; ; {
		start := time.Now()
		err := o.control.Listen(ctx, func() {
			o.listening.Store(true)
			o.requestPoll()
			o.announced()
		})
		o.listening.Store(false)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > listenRarest {
			delay = listenBackoff
		}
		if delay == listenBackoff {
			o.log.Warn().Err(err).Msg("listen for operator actions failed, polling instead")
		}
		o.requestPoll()
		sleep.For(ctx, delay)
		delay = min(2*delay, listenRarest)
	}
}

// poll reads the control state and obeys it.
func (o *controlState) poll(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	if o.reread.Swap(false) {
		o.read.Store(0)
		o.rebuild = true
		clear(o.refused)
	}
	now, err := o.control.ControlState(bounded, o.session(), o.read.Load())
	if err != nil {
		if !o.failing && ctx.Err() == nil {
			o.log.Warn().Err(err).Msg("read control state failed, the last one stays in effect")
		}
		o.failing = true
		return
	}
	o.failing = false
	o.obey(now)
	if err := o.watched.keep(bounded, now.Watched); err != nil && ctx.Err() == nil {
		o.log.Debug().Err(err).Msg("save output of watched runs failed")
	}
}

func (o *controlState) obey(now storage.ControlState) {
	revised := o.drain(now.Draining)
	if now.Generation != o.read.Load() {
		revised = o.pause(now.Pauses) || revised
		revised = o.applySpecs(now.Specs) || revised
		o.read.Store(now.Generation)
		o.rebuild = false
		if o.active.len() > 0 {
			signal(o.heartbeatNow)
		}
	}
	if revised {
		signal(o.activation.revised)
	}
	o.enrolling = o.table.isUnsettled() || len(o.table.unregistered()) > 0
	if o.enrolling {
		o.activation.enrollLater()
	}
	o.cancel(now.Cancels)
}

// drain sets whether the replica is drained, and reports whether that changed.
func (o *controlState) drain(draining bool) bool {
	changed := o.drained.Swap(draining) != draining
	switch {
	case changed && draining:
		o.log.Warn().Int("runs", o.active.len()).Msg("replica drained")
	case changed:
		o.log.Info().Msg("replica undrained")
	}
	return changed
}

// pause sets the active pauses, and reports whether they changed.
func (o *controlState) pause(pauses []storage.Pause) bool {
	was, is := byID(o.activePauses()), byID(pauses)
	o.pauses.Store(&pauses)
	for id, p := range is {
		if _, known := was[id]; !known {
			o.log.Info().Stringer("target", p.Target).Str("by", p.By).Msg("paused")
		}
	}
	for id, p := range was {
		if _, stands := is[id]; !stands {
			o.log.Info().Stringer("target", p.Target).Msg("resumed")
		}
	}
	return len(was) != len(is) || !sameKeys(was, is)
}

func byID(pauses []storage.Pause) map[uuid.UUID]storage.Pause {
	all := make(map[uuid.UUID]storage.Pause, len(pauses))
	for _, p := range pauses {
		all[p.ID] = p
	}
	return all
}

func sameKeys[K comparable, V any](a, b map[K]V) bool {
	for key := range a {
		if _, ok := b[key]; !ok {
			return false
		}
	}
	return true
}

// cancel ends the runs that operators cancelled. The store returns a run until it has ended, so a
// run that is only starting is cancelled by a later call.
func (o *controlState) cancel(runs map[uuid.UUID]string) {
	for run, by := range runs {
		if o.active.cancelRun(run, fmt.Errorf("%w: %s", jobs.ErrCancelled, by)) &&
			o.cancelled[run] == "" {
			o.cancelled[run] = by
			o.log.Info().Stringer("run", run).Str("by", by).Msg("run cancelled")
		}
	}
	for run := range o.cancelled {
		if _, asked := runs[run]; !asked {
			delete(o.cancelled, run)
		}
	}
}
