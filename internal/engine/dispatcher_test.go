package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// newTestDispatcher returns a dispatcher with one job that fires each second, with a scheduled time
// now.
func newTestDispatcher(t *testing.T) (*dispatcher, *entry) {
	t.Helper()
	e := entryEvery(t, time.Second, jobs.MisfireSkip)
	e.Group = "night"
	e.activeVersion.register(1)
	e.activeVersion.decide(time.Now())
	e.planned = true
	table := tableOf(e)
	d := &dispatcher{
		clock: &clusterClock{}, active: newActive(),
		controlState: &controlState{polls: make(chan struct{}, 1)}, log: zerolog.Nop(),
		table: table, ready: newReady("a", 1), ranking: &ranking{},
		workers: newWorkers(100), revised: make(chan struct{}),
	}
	d.plan(e, time.Now())
	return d, e
}

// A suspended job keeps one scheduled time, however long it is suspended.
func TestSuspendedJobKeepsOneScheduledTime(t *testing.T) {
	for name, rest := range map[string]func(*dispatcher, *entry){
		"its job is paused": func(d *dispatcher, _ *entry) {
			d.controlState.pauses.Store(&[]storage.Pause{
				{Target: storage.Target{Kind: storage.TargetJob, Name: "job"}}})
		},
		"its group is paused": func(d *dispatcher, _ *entry) {
			d.controlState.pauses.Store(&[]storage.Pause{
				{Target: storage.Target{Kind: storage.TargetGroup, Name: "night"}}})
		},
		"everything is paused": func(d *dispatcher, _ *entry) {
			d.controlState.pauses.Store(&[]storage.Pause{
				{Target: storage.Target{Kind: storage.TargetAll}}})
		},
		"drained":        func(d *dispatcher, _ *entry) { d.controlState.drained.Store(true) },
		"others fire it": func(_ *dispatcher, e *entry) { e.activeVersion.active.Store(2) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, e := newTestDispatcher(t)
				rest(d, e)
				for range 10 {
					time.Sleep(time.Second)
					d.tick()
					d.revise()
				}
				if d.ready.len() != 0 || len(d.held) != 0 ||
					len(d.suspended)+len(d.timetable.all()) != 1 {
					t.Errorf("%d queued, %d held, %d suspended, %d planned", d.ready.len(),
						len(d.held), len(d.suspended), len(d.timetable.all()))
				}
			})
		})
	}
}

func TestRemovedJobIsNotPlanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, e := newTestDispatcher(t)
		time.Sleep(time.Second)
		d.tick()
		d.table.remove(e.Name)
		time.Sleep(time.Second)
		d.tick()
		if d.ready.len() != 1 || len(d.timetable.all()) != 0 || len(d.suspended) != 0 {
			t.Errorf("%d queued, %d planned, %d suspended", d.ready.len(), len(d.timetable.all()),
				len(d.suspended))
		}
		p, _ := d.ready.pop()
		if !d.leaves(p) {
			t.Error("scheduled time of a removed job: got a firing, want none")
		}
		if p.adopted = uuid.New(); d.leaves(p) {
			t.Error("adopted run of a removed job: got it dropped, want it queued")
		}
	})
}

// A firing that waited for a worker when its job was paused starts after the resume.
func TestQueuedScheduledTimeOfAPausedJobIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newTestDispatcher(t)
		time.Sleep(time.Second)
		d.tick()
		p, _ := d.ready.pop()
		d.controlState.pauses.Store(&[]storage.Pause{
			{Target: storage.Target{Kind: storage.TargetJob, Name: "job"}}})
		if !d.leaves(p) {
			t.Error("scheduled time of a paused job: got a firing, want none")
		}
		d.revise()
		if q, ok := d.ready.pop(); !ok || !d.leaves(q) {
			t.Error("scheduled time of a job that is still paused: got it begun or dropped, " +
				"want it kept for later")
		}
		d.controlState.pauses.Store(nil)
		d.revise()
		if q, ok := d.ready.pop(); !ok || d.leaves(q) ||
			!q.ScheduledAt.Equal(p.ScheduledAt) {
			t.Error("scheduled time of a resumed job: got no firing, want one")
		}
	})
}

func TestDrainedReplicaForgetsAdoptedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, e := newTestDispatcher(t)
		run := uuid.New()
		d.ready.push(pending{entry: e, adopted: run, done: d.active.track(run)})
		d.controlState.drained.Store(true)
		d.revise()
		if d.ready.len() != 0 || len(d.held) != 0 || d.active.tracked[run] {
			t.Errorf("%d queued, %d held, cared for: %v", d.ready.len(), len(d.held),
				d.active.tracked[run])
		}
	})
}

// Once the store has returned the cursor of an added job, the dispatcher schedules the job from the
// cursor on.
func TestAddedJobIsPlannedWhenItsCursorIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, e := newTestDispatcher(t)
		fresh := &entry{Job: e.Job}
		d.table.put(fresh)
		time.Sleep(20 * time.Second)
		fresh.activeVersion.register(2)
		d.tick()
		d.revise()
		if len(d.timetable.all()) != 0 || !fresh.activeVersion.stale() {
			t.Errorf("%d planned, stale %v", len(d.timetable.all()), fresh.activeVersion.stale())
		}
		added := time.Now()
		fresh.activeVersion.update(storage.ActiveDefinition{Version: 2, CheckedUntil: added})
		d.revise()
		d.revise()
		if len(d.timetable.all()) != 1 || d.timetable.all()[0].entry != fresh ||
			!d.timetable.all()[0].scheduledAt.Equal(added.Truncate(time.Second).Add(time.Second)) {
			t.Errorf("planned: %+v", d.timetable.all())
		}
	})
}
