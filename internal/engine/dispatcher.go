package engine

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
)

// dispatcher turns the timetable into firings. It sleeps until a job is due, and gives due firings
// to free workers.
type dispatcher struct {
	table        *cronTable
	controlState *controlState
	clock        *clusterClock
	clockLimit   *clockLimit
	keeper       *keeper
	intervals    *pollIntervals
	pace         time.Duration // see paces
	log          zerolog.Logger
	// holds a value when this replica must update which jobs it fires
	revised <-chan struct{}

	ready     *ready
	ranking   *ranking
	lookout   *lookout
	prefilter prefilter
	workers   *workers
	active    *active
	executor  *executor

	// The following fields belong to run's goroutine.
	timetable timetable
	next      nextTime
	subsets   subsets
	revision  int       // counts the calls of revise
	taken     time.Time // when tick last took firings from the timetable
	dropped   time.Time // when tick last dropped parked firings
	due       []planned // the buffer of tick
	// for suspended jobs, the first scheduled time that was not started
	suspended []planned
	held      []pending // queued firings of jobs that were paused
	firings   sync.WaitGroup
}

// wait waits for the end of all firings. Nothing may dispatch meanwhile.
func (d *dispatcher) wait() { d.firings.Wait() }

// run dispatches until ctx ends. Its firings may outlive it; the caller waits for them.
func (d *dispatcher) run(ctx context.Context) {
	if _, err := d.keeper.Wait(ctx); err != nil { // from here on the clock is cluster time
		return
	}
	// Begin where the store last checked each job: firings that were due while no replica was up
	// may still start within their thresholds. The gate, or the store, refuses firings that other
	// replicas have begun.
	now := d.clock.now()
	for _, e := range d.table.all() {
		e.planned = true
		d.plan(e, e.oldest(now))
	}
	for ctx.Err() == nil {
		d.tick()
		if d.ready.len() == 0 {
			d.sleep(ctx)
			continue
		}
		w := worker{pool: d.workers}
		if _, err := d.keeper.Wait(ctx); err != nil ||
			w.begin(ctx, d.ready.mayBeginEarly()) != nil {
			return
		}
		if !d.clockLimit.right(ctx) || !d.keeper.AwaitConfirmed(ctx) {
			w.free()
			continue
		}
		// add the firings that became due while all workers were busy
		d.tick()
		session := d.keeper.session() // the previous session may be lost by now
		if session == nil || !d.dispatch(ctx, session, w) {
			w.free()
		}
	}
}

// dueKeeps is the largest capacity that the buffer of tick keeps, in items.
const dueKeeps = 8192

// dropInterval is the shortest time between two looks at the parked firings.
const dropInterval = time.Second

// tick moves every firing that is due to the ready queue, or sets it apart if its job is suspended.
// It keeps a pace, so that firings gather. It drops parked firings that are overdue.
func (d *dispatcher) tick() {
	select {
	case <-d.revised:
		d.revise()
	default:
	}
	if d.gathersFor() > 0 {
		return
	}
	now := d.clock.now()
	if time.Since(d.dropped) >= dropInterval {
		d.dropped = time.Now()
		for _, p := range d.ready.dropParked(now) {
			d.logOverdue(p)
		}
	}
	at := d.timetable.next()
	if at.IsZero() || at.After(now) {
		return
	}
	d.taken = time.Now()
	members := d.ranking.at(d.taken)
	for ; !at.IsZero() && !at.After(now); at = d.timetable.next() {
		if members.len() > sharedRank {
			d.due = d.timetable.popEarliest(d.due[:0])
		} else { // there are no subsets, so the buffer need not hold all firings of a time
			d.due = append(d.due[:0], d.timetable.pop())
		}
		for _, p := range d.due {
			if p.cohort != nil && members.len() > sharedRank {
				d.summarize(p.cohort, d.taken)
			}
		}
		d.subsets.load(members, d.due)
		for _, p := range d.due {
			d.routeAll(p, now)
		}
		if clear(d.due); cap(d.due) > dueKeeps {
			d.due = nil
		}
	}
}

// routeAll routes the firing of an item, or those of its cohort.
func (d *dispatcher) routeAll(p planned, now time.Time) {
	if p.cohort == nil {
		d.route(p, now)
		return
	}
	if d.leaveCohort(p, now) {
		return
	}
	for _, e := range p.cohort.entries {
		d.route(planned{scheduledAt: p.scheduledAt, entry: e}, now)
	}
}

// route queues a firing that is due, plans its start, leaves it to other replicas, or sets it apart
// because its job is suspended. It drops firings that do not count.
func (d *dispatcher) route(p planned, now time.Time) {
	if p.entry.gone.Load() {
		return // removed, or replaced by another entry
	}
	if oldest := p.entry.oldest(now); !p.scheduledAt.After(oldest) {
		if !p.delayed && !p.ranked {
			d.plan(p.entry, oldest)
		}
		return
	}
	if d.isSuspended(p.entry) {
		d.suspended = append(d.suspended, p)
		return
	}
	var next time.Time
	if !p.delayed && !p.ranked {
		next = d.plan(p.entry, p.scheduledAt)
		if d.timetable.delay(p) {
			return
		}
	}
	if !p.ranked && d.leaveToOthers(&p, next, now) {
		return
	}
	if p.entry.overdue(p.scheduledAt, now) {
		return // the misfire policy decides
	}
	if p.rank > 0 {
		d.lookout.add(p)
	} else {
		d.ready.add(p, now)
	}
}

// gathersFor returns how long tick leaves due firings in the timetable. A replica that is alone
// takes them at once.
func (d *dispatcher) gathersFor() time.Duration {
	now := time.Now()
	if d.ranking.at(now).len() <= 1 {
		return 0
	}
	return d.pace - now.Sub(d.taken)
}

// plan plans the entry's first scheduled time after t. It returns this time, or the zero time if
// there is none.
func (d *dispatcher) plan(e *entry, after time.Time) time.Time {
	scheduledAt := d.next.of(e.Schedule, after)
	d.timetable.plan(e, scheduledAt)
	return scheduledAt
}

// leaveToOthers ranks this replica for a scheduled time that was popped. It reports whether other
// replicas may try it first. Then it has planned when this replica looks at it. next is the next
// scheduled time, or the zero time if it is unknown.
func (d *dispatcher) leaveToOthers(p *planned, next, now time.Time) bool {
	members := d.subsets.members
	p.ranked, p.rank = true, unranked
	if members == nil {
		return false
	}
	hash := hashFiring(p.entry.Name, p.scheduledAt)
	p.rank = int16(d.subsets.rank(p, hash))
	shared := members.len() > sharedRank
	if p.rank <= 0 && !shared {
		return false
	}
	if next.IsZero() {
		next = d.next.of(p.entry.Schedule, p.scheduledAt)
	}
	longest := longestDelay(p.entry.leaveLimit(), p.scheduledAt, next)
	if shared && d.lookout.share(p, longest, members) && p.rank == sharedRank {
		return true
	}
	if p.rank <= 0 {
		return false
	}
	if p.after += min(rankDelay(int(p.rank)), longest); p.at().After(now) {
		d.timetable.put(*p)
		return true
	}
	return false
}

// isSuspended reports whether this replica must not begin firings of the job for now: another
// definition is active, the job is paused, or the replica is drained.
func (d *dispatcher) isSuspended(e *entry) bool {
	_, paused := d.controlState.paused(e.Name, e.Group)
	return paused || e.activeVersion.stale() || d.controlState.draining()
}

// revise plans new jobs, and jobs that this replica fires again. It continues with the first
// scheduled time that it left out, because other replicas may not have started it.
func (d *dispatcher) revise() {
	d.revision++
	left, held := d.suspended, d.held
	d.suspended, d.held = nil, nil
	for _, p := range left {
		if d.isSuspended(p.entry) && !p.entry.gone.Load() {
			d.suspended = append(d.suspended, p)
		} else {
			d.timetable.put(p)
		}
	}
	for _, p := range held {
		d.ready.push(p)
	}
	if d.controlState.draining() {
		d.clearQueue()
	}
	now := d.clock.now()
	for _, e := range d.table.all() {
		if !e.planned && e.activeVersion.known() {
			e.planned = true
			d.plan(e, e.oldest(now))
		}
	}
}

// clearQueue empties the queue when the replica is drained. Other replicas adopt the runs among
// them.
func (d *dispatcher) clearQueue() {
	for _, p := range d.ready.takeAll() {
		if !d.leaves(p) {
			d.ready.push(p)
		}
	}
}

// sleep waits for the next scheduled time, for an adopted run, or for a change of the jobs that
// this replica fires or of the live replicas. If this replica will leave the next firings to others
// as a whole, it waits until the look at their burst.
func (d *dispatcher) sleep(ctx context.Context) {
	wait := d.intervals.sleep
	if scheduledAt := d.timetable.next(); !scheduledAt.IsZero() {
		wait = min(wait, max(scheduledAt.Sub(d.clock.now())+d.rest(), d.gathersFor()))
	}
	timer := sleep.Timer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.ready.wake:
	case <-d.ranking.changed:
	case <-d.revised:
		d.revise()
	case <-ctx.Done():
	}
}

// mostTogether is how many firings begin together at most.
const mostTogether = 256

// dispatch begins the first ready firing with the worker that the caller has taken, or early, and
// reports whether there was one. If it begins early, the firings behind it that may do so begin
// together with it.
func (d *dispatcher) dispatch(ctx context.Context, session *liveSession, w worker) bool {
	first := d.take(ctx, session, w, nil)
	if first == nil {
		return false
	}
	all := []*firing{first}
	for w.early && len(all) < mostTogether && d.ready.mayBeginEarly() {
		w := worker{pool: d.workers}
		if !w.tryEarly() {
			break
		}
		f := d.take(ctx, session, w, all)
		if f == nil {
			w.free()
			break
		}
		all = append(all, f)
	}
	d.firings.Go(func() { d.executor.execute(ctx, all, &d.firings) })
	return true
}

// take removes the first ready firing from the queue, or returns nil if there is none for this
// worker. With others, which begin together with the firing, it also returns nil if the prefilter
// must check the firing first. It leaves firings that are older than their thresholds to the
// misfire policy, which may have recorded them already.
func (d *dispatcher) take(ctx context.Context, session *liveSession, w worker,
	others []*firing) *firing {
	for {
		p, ok := d.ready.pop()
		if !ok {
			return nil
		}
		if !p.stillOurs(session) {
			p.slots.giveBack()
			p.done()
			continue
		}
		if d.leaves(p) {
			p.slots.giveBack()
			continue
		}
		if d.prefilter.isWorthwhile(p, d.clock.now()) {
			if len(others) > 0 { // they must not wait for the prefilter
				p.slots.giveBack()
				d.ready.push(p)
				return nil
			}
			d.prefilter.drop(ctx, p)
			continue
		}
		if p.overdue(d.clock.now()) {
			p.slots.giveBack()
			d.logOverdue(&p)
			continue
		}
		if w.early && !p.mayBeginEarly() { // it came first meanwhile
			p.slots.giveBack()
			d.ready.push(p)
			return nil
		}
		w.slots = p.slots
		return d.begin(p, session, w)
	}
}

func (d *dispatcher) logOverdue(p *pending) {
	d.log.Debug().Str("job", p.entry.Name).Time("scheduled_at", p.ScheduledAt).
		Msg("firing is overdue, the misfire policy decides")
}

// leaves reports whether a queued firing must not begin: its job was removed, changed or suspended,
// or the replica is drained and another one can adopt the run.
func (d *dispatcher) leaves(p pending) bool {
	switch {
	case p.adopted != uuid.Nil:
		// no other replica may adopt a run between two attempts from a drained one
		if d.controlState.draining() && p.attempt <= 1 {
			p.done()
			return true
		}
	case p.entry.gone.Load():
		return true
	case d.isSuspended(p.entry):
		d.held = append(d.held, p)
		return true
	}
	return false
}

// begin returns the firing for the executor. A run is tracked from here on.
func (d *dispatcher) begin(p pending, session *liveSession, w worker) *firing {
	run := p.adopted
	if run == uuid.Nil {
		run = uuid.Must(uuid.NewV7())
		p.done = d.active.track(run)
	}
	f := &firing{pending: p, run: run, session: session, log: &d.log,
		expected: d.executor.starts.calls.expect(), worker: w}
	f.lineUp()
	return f
}
