package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// maxSleep bounds the dispatcher's sleep, so that a jump of the clock is seen.
const maxSleep = time.Minute

// dispatcher turns the timetable into firings: it sleeps until a job is due,
// and gives due firings to workers as they become free.
type dispatcher struct {
	*engine
	table     cronTable
	ready     *ready
	keeper    *keeper
	revised   <-chan struct{} // holds a value when other jobs than before are this replica's to fire
	timetable timetable
	aside     []planned // of jobs that are others' to fire, from the first due on that was left to them
	firings   sync.WaitGroup
}

// run dispatches until ctx ends. Firings that it began may outlive it; the
// caller waits for them.
func (d *dispatcher) run(ctx context.Context) {
	session, err := d.keeper.wait(ctx) // from then on the clock is the cluster's
	if err != nil {
		return
	}
	from := d.clock.now().Add(-time.Since(session.begun)) // its definitions may have been in force since
	for _, name := range d.table.names() {
		d.timetable.add(d.table[name], from)
	}
	for ctx.Err() == nil {
		d.tick()
		if d.ready.len() == 0 {
			d.sleep(ctx)
			continue
		}
		if _, err := d.keeper.wait(ctx); err != nil || d.workers.acquire(ctx) != nil {
			return
		}
		d.tick()                      // what became due while all workers were busy takes its place in the order
		session := d.keeper.session() // the one before may have been lost in that time
		if session == nil || !d.dispatch(ctx, session) {
			d.workers.release()
		}
	}
}

// tick moves every job that is due to the ready queue, or aside.
func (d *dispatcher) tick() {
	select {
	case <-d.revised:
		d.revise()
	default:
	}
	now := d.clock.now()
	for due := d.timetable.next(); !due.IsZero() && !due.After(now); due = d.timetable.next() {
		p := d.timetable.pop()
		if oldest := p.entry.oldest(now); !p.due.After(oldest) {
			d.timetable.add(p.entry, oldest)
			continue
		}
		if p.entry.standing.stale() {
			d.aside = append(d.aside, p)
			continue
		}
		d.ready.push(pending{entry: p.entry, firing: Firing{Job: p.entry.Name, Due: p.due}, attempt: 1, since: now})
		d.timetable.add(p.entry, p.due)
	}
}

// revise plans again what is this replica's to fire again: from where it was
// left to others, since they may have ended without firing it.
func (d *dispatcher) revise() {
	left := d.aside
	d.aside = nil
	for _, p := range left {
		if p.entry.standing.stale() {
			d.aside = append(d.aside, p)
		} else {
			d.timetable.put(p)
		}
	}
}

// sleep waits for the next due, for a run to be adopted, or for other jobs to
// be this replica's.
func (d *dispatcher) sleep(ctx context.Context) {
	wait := maxSleep
	if due := d.timetable.next(); !due.IsZero() {
		wait = min(wait, due.Sub(d.clock.now()))
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
// taken, or reports that there is none. A due older than its threshold is
// left to the misfire policy, which may have recorded it already.
func (d *dispatcher) dispatch(ctx context.Context, session *life) bool {
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
		if d.worthSieving(p) {
			d.sieve(ctx, p)
			continue
		}
		if p.adopted == uuid.Nil && d.clock.now().Sub(p.firing.Due) > p.entry.MisfireThreshold {
			p.hold.giveBack()
			d.log.Debug().Str("job", p.entry.Name).Time("due", p.firing.Due).Msg("due is too old to start, the misfire policy decides")
			continue
		}
		d.firings.Go(d.begin(p, session, ctx).run)
		return true
	}
}

// begun is a firing with what ends its waiting.
type begun struct {
	firing
	stop context.Context
}

func (b *begun) run() { b.live(b.stop) }

func (d *dispatcher) begin(p pending, session *life, stop context.Context) *begun {
	run := p.adopted
	if run == uuid.Nil {
		run = uuid.Must(uuid.NewV7())
		p.done = d.active.care(run)
	}
	log := d.log.With().Str("job", p.entry.Name).Stringer("run", run).Time("due", p.firing.Due).Logger()
	return &begun{firing: firing{engine: d.engine, pending: p, run: run, session: session, log: log}, stop: stop}
}
