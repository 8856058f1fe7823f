package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// dispatcher turns the timetable into firings: it sleeps until a job is due,
// and gives due firings to workers as they become free.
type dispatcher struct {
	*engine
	table  *cronTable
	ready  *ready
	keeper *keeper
	// holds a value when other jobs than before are this replica's to fire
	revised   <-chan struct{}
	timetable timetable
	// of jobs that are others' to fire or paused, from the first scheduled time on that was left
	aside   []planned
	held    []pending       // of jobs that were paused while these were queued
	known   map[*entry]bool // the entries that were planned
	firings sync.WaitGroup
}

// run dispatches until ctx ends. Firings that it began may outlive it; the
// caller waits for them.
func (d *dispatcher) run(ctx context.Context) {
	if _, err := d.keeper.Wait(ctx); err != nil { // from then on the clock is the cluster's
		return
	}
	// It begins where the store has last checked each job: what was scheduled while
	// no replica was up may still start within its threshold. What others have
	// begun meanwhile ends at its gate, or as the store's duplicate.
	now := d.clock.now()
	d.known = map[*entry]bool{}
	for _, e := range d.table.all() {
		d.known[e] = true
		d.timetable.add(e, e.oldest(now))
	}
	for ctx.Err() == nil {
		d.tick()
		if d.ready.len() == 0 {
			d.sleep(ctx)
			continue
		}
		if _, err := d.keeper.Wait(ctx); err != nil || d.workers.acquire(ctx) != nil {
			return
		}
		if !d.clockLimit.right(ctx) || !d.keeper.AwaitConfirmed(ctx) {
			d.workers.release()
			continue
		}
		// what became due while all workers were busy takes its place in the order
		d.tick()
		session := d.keeper.session() // the one before may have been lost in that time
		if session == nil || !d.dispatch(ctx, session) {
			d.workers.release()
		}
	}
}

// tick moves every scheduled time whose time to start has come to the ready queue, or aside.
func (d *dispatcher) tick() {
	select {
	case <-d.revised:
		d.revise()
	default:
	}
	now := d.clock.now()
	for at := d.timetable.next(); !at.IsZero() && !at.After(now); at = d.timetable.next() {
		p := d.timetable.pop()
		if !d.table.has(p.entry) {
			continue // removed, or changed: then there is another entry
		}
		if oldest := p.entry.oldest(now); !p.scheduledAt.After(oldest) {
			if !p.delayed {
				d.timetable.add(p.entry, oldest)
			}
			continue
		}
		if d.rests(p.entry) {
			d.aside = append(d.aside, p)
			continue
		}
		if !p.delayed {
			d.timetable.add(p.entry, p.scheduledAt)
			if d.timetable.delay(p, now) {
				continue
			}
		}
		if p.entry.overdue(p.scheduledAt, now) {
			continue // the misfire policy decides
		}
		d.ready.push(pending{entry: p.entry,
			firing: Firing{Job: p.entry.Name, ScheduledAt: p.scheduledAt}, attempt: 1, since: now})
	}
}

// rests reports whether this replica begins no firing of the job for now: others
// fire it, it is paused, or the replica is drained.
func (d *dispatcher) rests(e *entry) bool {
	_, paused := d.controlState.paused(e.Name, e.Group)
	return paused || e.activeVersion.stale() || d.controlState.draining()
}

// revise plans what was added, and again what is this replica's to fire again:
// from where it was left, since nobody may have fired it.
func (d *dispatcher) revise() {
	left, held := d.aside, d.held
	d.aside, d.held = nil, nil
	for _, p := range left {
		if d.rests(p.entry) && d.table.has(p.entry) {
			d.aside = append(d.aside, p)
		} else {
			d.timetable.put(p)
		}
	}
	for _, p := range held {
		d.ready.push(p)
	}
	if d.controlState.draining() {
		d.letGo()
	}
	known := make(map[*entry]bool, len(d.known))
	now := d.clock.now()
	for _, e := range d.table.all() {
		if !d.known[e] && !e.activeVersion.heard() {
			continue
		}
		if known[e] = true; !d.known[e] {
			d.timetable.add(e, e.oldest(now))
		}
	}
	d.known = known
}

// letGo puts aside what is queued here, for others to adopt what they may.
func (d *dispatcher) letGo() {
	for _, p := range d.ready.takeAll() {
		if !d.leaves(p) {
			d.held = append(d.held, p) // there is no such thing while the replica is drained
		}
	}
}

// sleep waits for the next scheduled time, for a run to be adopted, or for other jobs to
// be this replica's.
func (d *dispatcher) sleep(ctx context.Context) {
	wait := d.pace.sleep
	if scheduledAt := d.timetable.next(); !scheduledAt.IsZero() {
		wait = min(wait, scheduledAt.Sub(d.clock.now()))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.ready.wake:
	case <-d.revised:
		d.revise()
	case <-ctx.Done():
	}
}

// dispatch begins the first ready firing, with the worker that the caller has
// taken, or reports that there is none. A scheduled time older than its threshold is
// left to the misfire policy, which may have recorded it already.
func (d *dispatcher) dispatch(ctx context.Context, session *liveSession) bool {
	for {
		p, ok := d.ready.pop()
		if !ok {
			return false
		}
		if !p.stillOurs(session) {
			p.hold.giveBack()
			p.done()
			continue
		}
		if d.leaves(p) {
			p.hold.giveBack()
			continue
		}
		if d.worthSieving(p) {
			d.sieve(ctx, p)
			continue
		}
		if p.adopted == uuid.Nil && p.entry.overdue(p.firing.ScheduledAt, d.clock.now()) {
			p.hold.giveBack()
			d.log.Debug().Str("job", p.entry.Name).Time("scheduled_at", p.firing.ScheduledAt).
				Msg("firing is too late to start, the misfire policy decides")
			continue
		}
		d.firings.Go(d.begin(p, session, ctx).run)
		return true
	}
}

// leaves reports whether nothing is begun of what was queued: its job was removed
// or changed meanwhile, rests until the next revision, or is another's to adopt.
func (d *dispatcher) leaves(p pending) bool {
	switch {
	case p.adopted != uuid.Nil:
		if d.controlState.draining() {
			p.done()
			return true
		}
	case !d.table.has(p.entry):
		return true
	case d.rests(p.entry):
		d.held = append(d.held, p)
		return true
	}
	return false
}

// begun is a firing with what ends its waiting.
type begun struct {
	firing
	stop context.Context
}

func (b *begun) run() { b.live(b.stop) }

func (d *dispatcher) begin(p pending, session *liveSession, stop context.Context) *begun {
	run := p.adopted
	if run == uuid.Nil {
		run = uuid.Must(uuid.NewV7())
		p.done = d.active.care(run)
	}
	log := d.log.With().Str("job", p.entry.Name).Stringer("run", run).
		Time("scheduled_at", p.firing.ScheduledAt).Logger()
	return &begun{firing: firing{engine: d.engine, pending: p, run: run, session: session,
		log: log}, stop: stop}
}
