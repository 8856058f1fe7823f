package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/rs/zerolog"
)

const (
	listenBackoff = time.Second      // the first delay before listening again
	listenRarest  = 30 * time.Second // the longest delay
)

// controlState is the control state of this replica as last read. If it cannot be read, the replica
// keeps the last one. The store refuses starts that the control state forbids, even if this replica
// has not read it.
type controlState struct {
	control      storage.Control
	session      func() uuid.UUID
	table        *cronTable
	activation   *activation
	active       *active
	heartbeatNow chan<- struct{} // the keeper's
	registry     *jobs.Registry
	build        func(text json.RawMessage) (jobs.Job, error)
	log          zerolog.Logger
	every        time.Duration // how often to poll when no action is announced

	mu      sync.Mutex
	pauses  []storage.Pause
	drained bool

	polls  chan struct{} // holds a value when a poll is requested
	reread atomic.Bool   // added jobs must be built again

	// The following fields belong to run's goroutine.
	read int64 // the generation that was last read; 0 for none
	// by job, the version of its spec that this replica does not fire
	refused   map[string]int64
	cancelled map[uuid.UUID]string // the runs that were cancelled, with the actor
	rebuild   bool                 // build the jobs again with the next poll
	failing   bool
	watched   *watched
}

// paused returns the pause that covers a job of that group, if there is one. It may be called
// concurrently, as may draining and requestPoll.
func (o *controlState) paused(job, group string) (storage.Pause, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.pauses {
		if p.Covers(job, group) {
			return p, true
		}
	}
	return storage.Pause{}, false
}

// draining reports whether this replica must start nothing more.
func (o *controlState) draining() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.drained
}

// rebuildAdded requests that added jobs are built again, because they may use changed parts of the
// configuration.
func (o *controlState) rebuildAdded() {
	o.reread.Store(true)
	o.requestPoll()
}

// requestPoll requests a poll at once.
func (o *controlState) requestPoll() { signal(o.polls) }

// run polls and obeys the control state until ctx ends.
func (o *controlState) run(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { o.listen(ctx) })
	every := time.NewTicker(o.every)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-o.polls:
		case <-ctx.Done():
			return
		}
		o.poll(ctx)
	}
}

// listen requests a poll when the store announces an action. While it cannot listen, the regular
// polls find the actions.
func (o *controlState) listen(ctx context.Context) {
	for delay := listenBackoff; ; {
		begun := time.Now()
		err := o.control.Listen(ctx, o.requestPoll)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > listenRarest {
			delay = listenBackoff
		}
		if delay == listenBackoff {
			o.log.Warn().Err(err).Msg("listen for operator actions failed, polling instead")
		}
		o.requestPoll()
		pause(ctx, delay)
		delay = min(2*delay, listenRarest)
	}
}

// poll reads the control state and obeys it.
func (o *controlState) poll(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	if o.reread.Swap(false) {
		o.read, o.rebuild = 0, true
		clear(o.refused)
	}
	now, err := o.control.ControlState(bounded, o.session(), o.read)
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
	if now.Generation != o.read {
		revised = o.pause(now.Pauses) || revised
		revised = o.applySpecs(now.Specs) || revised
		o.read, o.rebuild = now.Generation, false
		if o.active.len() > 0 {
			signal(o.heartbeatNow)
		}
	}
	if revised {
		signal(o.activation.revised)
	}
	if o.table.isUnsettled() || len(o.table.unregistered()) > 0 {
		o.activation.enrollLater()
	}
	o.cancel(now.Cancels)
}

// drain sets whether the replica is drained, and reports whether that changed.
func (o *controlState) drain(draining bool) bool {
	o.mu.Lock()
	changed := o.drained != draining
	o.drained = draining
	o.mu.Unlock()
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
	o.mu.Lock()
	before := o.pauses
	o.pauses = pauses
	o.mu.Unlock()
	was, is := byID(before), byID(pauses)
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

// applySpecs updates the table with the added jobs, and reports whether it changed.
func (o *controlState) applySpecs(specs []storage.Spec) (changed bool) {
	there := make(map[string]bool, len(specs))
	for _, s := range specs {
		there[s.Job] = true
		changed = o.applySpec(s) || changed
	}
	for _, e := range o.table.all() {
		if e.spec != nil && !there[e.Name] {
			o.table.remove(e.Name)
			o.log.Info().Str("job", e.Name).Msg("added job removed")
			changed = true
		}
	}
	for job := range o.refused {
		if !there[job] {
			delete(o.refused, job)
		}
	}
	return changed
}

// applySpec puts an added job into the table if it is new or changed, and reports whether it did. A
// job that this replica cannot fire is logged once and left to other replicas.
func (o *controlState) applySpec(s storage.Spec) bool {
	before := o.table.get(s.Job)
	if before != nil && before.spec != nil && before.spec.Version == s.Version && !o.rebuild ||
		o.refused[s.Job] == s.Version {
		return false
	}
	if before != nil && before.spec == nil {
		o.refused[s.Job] = s.Version
		o.log.Warn().Str("job", s.Job).Str("added_by", s.ChangedBy).
			Msg("added job ignored, the configuration has a job of that name")
		return false
	}
	e, err := o.entry(s)
	if err != nil {
		o.refused[s.Job] = s.Version
		o.log.Warn().Err(err).Str("job", s.Job).Int64("spec", s.Version).
			Msg("added job cannot be fired by this replica")
		if before == nil {
			return false
		}
		o.table.remove(s.Job) // the previous definition must not be fired any more
		return true
	}
	delete(o.refused, s.Job)
	if before != nil && before.same(e) {
		return false
	}
	o.table.put(e)
	return true
}

var errNoBuild = errors.New("this replica does not support jobs added at run time")

func (o *controlState) entry(s storage.Spec) (*entry, error) {
	if o.build == nil {
		return nil, errNoBuild
	}
	job, err := o.build(s.Text)
	if err != nil {
		return nil, err
	}
	if job.Name != s.Job {
		return nil, fmt.Errorf("spec names the job %q", job.Name)
	}
	e, err := newEntry(o.registry, job)
	if err != nil {
		return nil, err
	}
	e.spec = &s
	e.definition = e.definition.OfSpec(s.Version)
	return e, nil
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
