package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/internal/test/simulation"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// people are the operators of a simulated cluster. They take one action after the other, over a
// slow connection that loses replies. They repeat each action until they get its reply.
type people struct {
	c            *simulatedCluster
	random       *rand.Rand
	control      storage.Store
	controlState chan func()
	closed       chan struct{}
	actions      int
	table        []jobs.Job // the newest table

	versions map[string]int64   // of the added jobs
	next     int                // index of the next definition to add
	drained  map[uuid.UUID]bool // the drained sessions
	over     []func()           // end temporary actions that have not ended

	reported simulation.Evidence
}

func newPeople(c *simulatedCluster) *people {
	link := c.store.NewLink(c.how.seed)
	link.SetFaults(simstore.Faults{Slow: 50 * time.Millisecond, Lost: 0.1})
	o := &people{
		c: c, random: rand.New(rand.NewPCG(c.how.seed, 5)), control: link,
		controlState: make(chan func(), 10_000), closed: make(chan struct{}),
		versions: map[string]int64{}, drained: map[uuid.UUID]bool{},
		reported: simulation.Evidence{Cancelled: map[uuid.UUID]time.Time{},
			Released: map[uuid.UUID]time.Time{}},
	}
	if c.how.plant != nil {
		o.control = c.how.plant(link)
	}
	go func() {
		defer close(o.closed)
		for do := range o.controlState {
			do()
		}
	}()
	return o
}

// enqueue queues a task.
func (o *people) enqueue(do func()) { o.controlState <- do }

// leave ends all temporary actions and waits until all tasks have run.
func (o *people) leave() {
	done := make(chan struct{})
	o.enqueue(func() {
		for _, end := range o.over {
			end()
		}
		close(done)
	})
	<-done
}

// addEvidence adds the replies that operators got to the evidence.
func (o *people) addEvidence(e *simulation.Evidence) {
	close(o.controlState)
	<-o.closed
	e.Triggered, e.Cancelled, e.Released, e.Changes, e.Drains = o.reported.Triggered,
		o.reported.Cancelled, o.reported.Released, o.reported.Changes, o.reported.Drains
}

// after calls do once, after a time or in leave.
func (o *people) after(d time.Duration, do func()) {
	ended := false
	end := func() {
		if !ended {
			ended = true
			do()
		}
	}
	o.over = append(o.over, end)
	time.AfterFunc(d, func() { o.enqueue(end) })
}

// action takes the action of an event on the jobs of that table.
func (o *people) action(e simulation.Event, table []jobs.Job) {
	o.table = table
	switch e.Action {
	case simulation.Trigger:
		o.trigger()
	case simulation.Pause:
		o.pause(e.For)
	case simulation.Cancel:
		o.cancel()
	case simulation.Release:
		o.release()
	case simulation.Put:
		o.put()
	case simulation.Remove:
		o.remove()
	case simulation.Drain:
		o.drain(o.c.hosts[e.Replica], e.For)
	}
}

// ask repeats an action until the store replies.
func (o *people) ask(action func(ctx context.Context) error) error {
	for delay := time.Second; ; delay = min(2*delay, time.Minute) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := action(ctx)
		cancel()
		if !errors.Is(err, storage.ErrUnavailable) {
			return err
		}
		time.Sleep(delay)
	}
}

// key returns an idempotency key, which makes the store act once however often the action is
// repeated.
func (o *people) key() storage.Action {
	o.actions++
	return storage.Action{Actor: "somebody", Via: "go", Key: fmt.Sprint("act ", o.actions)}
}

// trigger triggers a job, or repeats an earlier trigger. The repeat sometimes has other params or
// another time, which the store must refuse.
func (o *people) trigger() {
	var request storage.TriggerRequest
	before := len(o.reported.Triggered)
	if before > 0 && o.random.IntN(4) == 0 {
		request = o.reported.Triggered[o.random.IntN(before)].Request
		switch o.random.IntN(3) {
		case 0:
			request.Params = o.params(request.Key + " again")
		case 1:
			request.Delay, request.At = time.Second, time.Time{}
		}
	} else {
		o.actions++
		request = storage.TriggerRequest{Job: o.anyJob(), Key: fmt.Sprint("by hand ", o.actions),
			EvenPaused: o.random.IntN(2) == 0}
		switch o.random.IntN(4) {
		case 0:
			after := time.Duration(o.random.Int64N(int64(time.Hour)))
			request.At = o.c.now().Add(after - time.Minute)
		case 1:
			request.Delay = time.Duration(o.random.Int64N(int64(time.Hour)))
		}
		if o.random.IntN(2) == 0 {
			request.Params = o.params(request.Key)
		}
	}
	sent := o.c.now()
	var record storage.Triggered
	err := o.ask(func(ctx context.Context) (err error) {
		record, err = o.triggerer().Trigger(ctx, storage.Action{Actor: "somebody", Via: "go"},
			request)
		return err
	})
	switch {
	case err == nil:
		o.reported.Triggered = append(o.reported.Triggered,
			simulation.Triggered{Run: record.ID, Request: request, Sent: sent, Answered: o.c.now()})
	case !errors.Is(err, storage.ErrPaused) && !errors.Is(err, storage.ErrNotFound) &&
		!errors.Is(err, storage.ErrConflict):
		o.c.t.Errorf("trigger of %s: %v", request.Job, err)
	}
}

// triggerer returns a replica that may start the run itself, or the connection of the operators.
// Plants are in that connection.
func (o *people) triggerer() interface {
	Trigger(context.Context, storage.Action, storage.TriggerRequest) (storage.Triggered, error)
} {
	if o.c.how.plant != nil || o.random.IntN(4) == 0 {
		return o.control
	}
	if l := o.c.hosts[o.random.IntN(len(o.c.hosts))].shown.Load(); l != nil {
		return l.is
	}
	return o.control
}

// anyJob returns a job of the newest table or one that may have been added.
func (o *people) anyJob() string {
	if o.random.IntN(6) == 0 {
		return o.c.added[o.random.IntN(len(o.c.added))].Name
	}
	return o.table[o.random.IntN(len(o.table))].Name
}

func (o *people) params(key string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"moment":%q}`, key))
}

// pause pauses a job, a group or all jobs for a time.
func (o *people) pause(d time.Duration) {
	target := storage.Target{Kind: storage.TargetAll}
	switch o.random.IntN(10) {
	case 0:
	case 1, 2:
		target = storage.Target{Kind: storage.TargetGroup,
			Name: simulation.Groups[o.random.IntN(len(simulation.Groups))]}
	default:
		target = storage.Target{Kind: storage.TargetJob, Name: o.anyJob()}
	}
	action := o.key()
	err := o.ask(func(ctx context.Context) error {
		_, err := o.control.Pause(ctx, action, target)
		return err
	})
	if err != nil { // no replica knows the job
		return
	}
	o.after(d, func() {
		action := o.key()
		err := o.ask(func(ctx context.Context) error {
			_, err := o.control.Resume(ctx, action, target)
			return err
		})
		if err != nil && !errors.Is(err, storage.ErrNotFound) { // another operator has resumed it
			o.c.t.Errorf("resume %s: %v", target, err)
		}
	})
}

// cancel cancels a running or waiting run, if there is one.
func (o *people) cancel() {
	active, err := o.c.store.Runs(context.Background(),
		storage.RunFilter{States: []jobs.State{jobs.Running, jobs.Waiting}})
	if err != nil || len(active) == 0 {
		return
	}
	run, action := active[o.random.IntN(len(active))].ID, o.key()
	err = o.ask(func(ctx context.Context) error {
		_, err := o.control.Cancel(ctx, action, run)
		return err
	})
	if err == nil {
		o.reported.Cancelled[run] = o.c.now()
	}
}

// release releases the lock of a run, if there is one.
func (o *people) release() {
	held, err := o.c.store.Locks(context.Background())
	if err != nil || len(held) == 0 {
		return
	}
	lock, action := held[o.random.IntN(len(held))], o.key()
	var run uuid.UUID
	err = o.ask(func(ctx context.Context) error {
		released, err := o.control.Release(ctx, action,
			storage.ReleaseRequest{Resource: lock.Resource, Token: lock.Token})
		run = released.ID
		return err
	})
	if err == nil {
		o.reported.Released[run] = o.c.now()
	}
}

// put adds or changes a job at run time. Sometimes two operators do it at once.
func (o *people) put() {
	number := o.next
	o.next = (o.next + 1) % len(o.c.added)
	seen := o.versions[o.c.added[number].Name]
	numbers := []int{number}
	if other := number + simulation.AddedJobs; o.random.IntN(3) == 0 && other < len(o.c.added) {
		numbers = append(numbers, other)
	}
	changes := make([]simulation.Change, len(numbers))
	versions := make([]int64, len(numbers))
	var both sync.WaitGroup
	for i, n := range numbers {
		action, job := o.key(), o.c.added[n]
		changes[i] = simulation.Change{Job: job.Name, Description: job.Description,
			Round: o.actions - i, Sent: o.c.now()}
		both.Go(func() { versions[i] = o.putOne(action, n, seen, &changes[i]) })
	}
	both.Wait()
	for i, change := range changes {
		if !change.Lost {
			o.versions[change.Job] = versions[i]
		}
	}
	o.reported.Changes = append(o.reported.Changes, changes...)
}

func (o *people) putOne(action storage.Action, number int, seen int64,
	change *simulation.Change) (version int64) {
	err := o.ask(func(ctx context.Context) error {
		put, err := o.control.PutSpec(ctx, action,
			storage.Spec{Job: change.Job, Text: o.c.added.Text(number), Version: seen})
		version = put.Version
		return err
	})
	if change.Lost = errors.Is(err, storage.ErrConflict); err != nil && !change.Lost {
		o.c.t.Errorf("put %s: %v", change.Job, err)
	}
	change.Answered = o.c.now()
	return version
}

// remove removes an added job, if there is one.
func (o *people) remove() {
	for _, job := range o.c.added[:simulation.AddedJobs] {
		seen := o.versions[job.Name]
		if seen == 0 {
			continue
		}
		action := o.key()
		change := simulation.Change{Job: job.Name, Round: o.actions, Sent: o.c.now()}
		if err := o.ask(func(ctx context.Context) error {
			return o.control.RemoveSpec(ctx, action, job.Name, seen)
		}); err != nil {
			o.c.t.Errorf("remove %s: %v", job.Name, err)
		}
		change.Answered = o.c.now()
		o.versions[job.Name] = 0
		o.reported.Changes = append(o.reported.Changes, change)
		return
	}
}

// drain makes a replica start nothing new for a time. Other replicas take over its waiting runs.
// This is a fault only if no other replica is live.
func (o *people) drain(h *simulatedHost, d time.Duration) {
	liveSession := h.shown.Load()
	if liveSession == nil {
		return
	}
	session, action := liveSession.is.Session(), o.key()
	if o.drained[session] {
		return
	}
	if err := o.ask(func(ctx context.Context) error {
		return o.control.Drain(ctx, action, session, true)
	}); err != nil {
		return // its session has ended
	}
	from, over := o.c.now(), func() {}
	if o.drained[session] = true; len(o.drained) == len(o.c.hosts) {
		over = o.c.wrong()
	}
	o.after(d, func() {
		drained, action := simulation.Drained{Process: liveSession.number,
			Interval: simulation.Interval{From: from, To: o.c.now()}}, o.key()
		err := o.ask(func(ctx context.Context) error {
			return o.control.Drain(ctx, action, session, false)
		})
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			o.c.t.Errorf("undrain %s: %v", h.name, err)
		}
		if end := o.c.store.SessionEnd(session); end.Before(drained.To) {
			drained.To = end
		}
		o.reported.Drains = append(o.reported.Drains, drained)
		delete(o.drained, session)
		over()
	})
}
