package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// inGroup returns a firing of a job of its own in a group with that many slots.
func inGroup(name, group string, slots int) pending {
	e := &entry{Job: jobs.Job{Name: name, Group: group,
		GroupLimits: jobs.GroupLimits{PerReplica: slots}}}
	return pending{entry: e, attempt: 1,
		Firing: storage.Firing{Job: name, ScheduledAt: time.Unix(100, 0)}}
}

func late(p pending) pending {
	p.late, p.adopted = true, uuid.New()
	return p
}

func popped(t *testing.T, r *ready) pending {
	t.Helper()
	p, ok := r.pop()
	if !ok {
		t.Fatal("pop: got nothing, want a firing")
	}
	return p
}

func TestFullGroupDoesNotDelayOthers(t *testing.T) {
	r := newReady("replica", 1)
	for i := range 3 {
		r.push(inGroup(fmt.Sprintf("in-%d", i), "night", 1))
	}
	other := inGroup("other", "", 0)
	other.Firing.ScheduledAt = time.Unix(200, 0)
	r.push(other)
	first := popped(t, r)
	if p := popped(t, r); p.entry.Name != "other" {
		t.Errorf("popped %s beside %s, want the one of no group", p.entry.Name, first.entry.Name)
	}
	if p, ok := r.pop(); ok {
		t.Errorf("%s is popped, though its group is full", p.entry.Name)
	}
	<-r.wake
	first.slots.giveBack()
	select {
	case <-r.wake:
	default:
		t.Error("wake after a slot was given back: got none, want one")
	}
	popped(t, r).slots.giveBack()
	popped(t, r).slots.giveBack()
}

// A firing that cannot use a free slot must not block it. A late run of a full group leaves the
// slot for late runs to another late run.
func TestUnusedSlotIsPassedOn(t *testing.T) {
	r := newReady("replica", 1)
	night := inGroup("night", "night", 1)
	r.push(night)
	holdsGroup := popped(t, r)
	r.push(late(inGroup("plain", "", 0)))
	holdsLate := popped(t, r)
	r.push(late(inGroup("both", "night", 1)))
	r.push(late(inGroup("next", "", 0)))
	if p, ok := r.pop(); ok {
		t.Fatalf("%s is popped without a slot", p.entry.Name)
	}
	holdsLate.slots.giveBack()
	next := popped(t, r)
	if next.entry.Name != "next" {
		t.Fatalf("%s is popped", next.entry.Name)
	}
	next.slots.giveBack()
	holdsGroup.slots.giveBack()
	if p := popped(t, r); p.entry.Name != "both" {
		t.Errorf("%s is popped", p.entry.Name)
	}
}

// When its handler has returned, a late run gives back its slot for late runs, and keeps the slot
// of its group.
func TestLateRunKeepsTheSlotOfItsGroup(t *testing.T) {
	r := newReady("replica", 1)
	r.push(late(inGroup("both", "night", 1)))
	both := popped(t, r)
	r.push(inGroup("in-group", "night", 1))
	r.push(late(inGroup("late", "", 0)))
	if p, ok := r.pop(); ok {
		t.Fatalf("%s is popped without a slot", p.entry.Name)
	}
	w := worker{pool: newWorkers(1), slots: both.slots}
	w.endCall()
	if p := popped(t, r); p.entry.Name != "late" {
		t.Errorf("%s is popped when the handler has returned", p.entry.Name)
	}
	if p, ok := r.pop(); ok {
		t.Errorf("%s is popped, though its group is full", p.entry.Name)
	}
	w.giveBack()
	inGroup := popped(t, r)
	if inGroup.entry.Name != "in-group" {
		t.Errorf("%s is popped when the run has ended", inGroup.entry.Name)
	}
	inGroup.slots.giveBack()
	if !w.tryTake() {
		t.Error("another attempt needs a slot for late runs, which another run has")
	}
}

// A replica adopts no more runs than it can start at once, besides those that it has adopted.
func TestQueuedAdoptedRunsNeedTheFreeWorkers(t *testing.T) {
	a := &adopter{workers: newWorkers(4), ready: newReady("replica", 4),
		intervals: &pollIntervals{}}
	for _, want := range []int{4, 3, 2, 1, 0, 0} {
		if got, _ := a.room(); got != want {
			t.Errorf("with %d adopted runs in the queue: got room for %d, want %d",
				a.ready.adoptedLen(), got, want)
		}
		p := inGroup("job", "", 0)
		p.adopted = uuid.New()
		a.ready.push(p)
	}
}

func TestRoomForLateRuns(t *testing.T) {
	r := newReady("replica", 3)
	room := func(want int) {
		t.Helper()
		if got := r.lateRoom(); got != want {
			t.Errorf("room for %d late runs, want %d", got, want)
		}
	}
	room(3)
	for i := range 4 {
		r.push(late(inGroup(fmt.Sprint(i), "", 0)))
		room(max(0, 2-i))
	}
	again := late(inGroup("second attempt", "", 0))
	again.attempt = 2 // a later attempt does not use the slots for late runs
	first := popped(t, r)
	popped(t, r)
	popped(t, r)
	if p, ok := r.pop(); ok {
		t.Errorf("%s is popped beside three others", p.entry.Name)
	}
	r.push(again)
	popped(t, r)
	room(0)
	first.slots.giveBack()
	room(0) // the fourth run has the slot
	popped(t, r).slots.giveBack()
	room(1)
}

func TestAllQueuedFiringsAreReleased(t *testing.T) {
	r := newReady("replica", 1)
	r.push(inGroup("a", "night", 1))
	holder := popped(t, r)
	r.push(inGroup("b", "night", 1))
	r.push(late(inGroup("c", "", 0)))
	holdsLate := popped(t, r)
	r.push(late(inGroup("d", "", 0)))
	r.pop()
	r.push(inGroup("e", "", 0))
	if all := r.takeAll(); len(all) != 3 {
		t.Errorf("%d of 3 are let go", len(all))
	}
	holder.slots.giveBack()
	holdsLate.slots.giveBack()
	if p, ok := r.pop(); ok || r.adoptedLen() != 0 || r.lateRoom() != 1 {
		t.Errorf("%v is left, with %d adopted and room for %d late runs", p.entry, r.adoptedLen(),
			r.lateRoom())
	}
}

// Parked firings that are overdue or whose jobs are gone are dropped wherever they are in the heap.
// Adopted runs stay, and the others keep their order.
func TestParkedFiringsAreDropped(t *testing.T) {
	r := newReady("replica", 1)
	r.push(inGroup("holder", "night", 1))
	holder := popped(t, r)
	adopted := inGroup("adopted", "night", 1)
	adopted.adopted, adopted.queued = uuid.New(), time.Unix(100, 0)
	r.push(adopted)
	removed := inGroup("removed", "night", 1)
	removed.entry.gone.Store(true)
	r.push(removed)
	for i, threshold := range []time.Duration{time.Minute, time.Second, 3 * time.Minute,
		2 * time.Minute, time.Second} {
		p := inGroup(fmt.Sprint(i), "night", 1)
		p.entry.MisfireThreshold = threshold
		p.Firing.ScheduledAt = time.Unix(110-int64(i), 0)
		r.push(p)
	}
	if p, ok := r.pop(); ok {
		t.Fatalf("%s is popped, though its group is full", p.entry.Name)
	}
	var overdue []string
	for _, p := range r.dropParked(time.Unix(150, 0)) {
		overdue = append(overdue, p.entry.Name)
	}
	if slices.Sort(overdue); !slices.Equal(overdue, []string{"1", "4"}) {
		t.Errorf("%q are overdue, want 1 and 4", overdue)
	}
	if _, parked := r.lens(); parked != 4 {
		t.Errorf("%d are still parked, want 4", parked)
	}
	var order []string
	for holds := holder; len(order) < 4; {
		holds.slots.giveBack()
		holds = popped(t, r)
		order = append(order, holds.entry.Name)
	}
	if want := []string{"adopted", "3", "2", "0"}; !slices.Equal(order, want) {
		t.Errorf("popped %q, want %q", order, want)
	}
}

// Jobs whose scheduled times a pause holds back must not block jobs that can be decided.
func TestPausedMisfiresAreCheckedLast(t *testing.T) {
	now := time.Now()
	u := &misfireChecker{intervals: defaultIntervals(), held: map[string]bool{"paused": true},
		controlState: &controlState{}}
	u.controlState.pauses.Store(&[]storage.Pause{
		{Target: storage.Target{Kind: storage.TargetJob, Name: "paused"}}})
	var entries []*entry
	for name, behind := range map[string]time.Duration{"paused": 100 * time.Hour,
		"long ago": 50 * time.Hour, "lately": 5 * time.Minute} {
		e := entryEvery(t, time.Minute, jobs.MisfireSkip)
		e.Name = name
		e.activeVersion.register(1)
		e.activeVersion.decide(now.Add(-behind))
		entries = append(entries, e)
	}
	u.table = tableOf(entries...)
	var got []string
	for _, c := range u.undecided(now) {
		got = append(got, c.Job)
		if c.Job == "paused" && c.weight != 1 {
			t.Errorf("what is held back weighs %d", c.weight)
		}
	}
	if fmt.Sprint(got) != "[long ago lately paused]" {
		t.Errorf("looked at in the order %q", got)
	}
}

// A firing that gives up its wait for a slot may have had it for a moment, in which another firing
// was parked. That one must not stay parked beside a free slot.
func TestSlotOfAWaitThatEndedIsFree(t *testing.T) {
	r := newReady("replica", 1)
	r.push(inGroup("parked", "night", 1))
	waits := r.slotsOf(inGroup("waits", "night", 1))
	limit := waits.needs[0].limit
	if !limit.TryAcquire(1) {
		t.Fatal("the group has no slot")
	}
	if p, ok := r.pop(); ok {
		t.Fatalf("%s is popped, though its group is full", p.entry.Name)
	}
	limit.Release(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := waits.take(ctx); err == nil {
		t.Fatal("the wait that ended has got the slot")
	}
	popped(t, r).slots.giveBack()
}
