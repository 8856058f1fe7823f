package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/rs/zerolog"
)

const (
	eventQueue = 4096 // capacity of a listener's queue
	eventGrace = 5 * time.Second
	eventLog   = 10 * time.Second // between two log lines about dropped events
)

// eventBus sends events to the listeners of a replica. A nil eventBus has no listeners.
type eventBus struct {
	observer func(jobs.Event) // called synchronously; may be nil
	members  []*member
	log      zerolog.Logger
}

// member is one listener with its queue.
type member struct {
	listener jobs.Listener
	queue    chan jobs.Event
	dropped  atomic.Int64
	mu       sync.Mutex
	logged   time.Time
}

func newEventBus(observer func(jobs.Event), listeners []jobs.Listener,
	log zerolog.Logger) *eventBus {
	a := &eventBus{observer: observer, log: log}
	for _, l := range listeners {
		a.members = append(a.members,
			&member{listener: l, queue: make(chan jobs.Event, eventQueue)})
	}
	return a
}

// hasListeners reports whether there is any listener.
func (a *eventBus) hasListeners() bool {
	return a != nil && (a.observer != nil || len(a.members) > 0)
}

// publish queues the event for every listener, after it has called the observer.
func (a *eventBus) publish(e jobs.Event) {
	if !a.hasListeners() {
		return
	}
	if a.observer != nil {
		a.observer(e)
	}
	for n, m := range a.members {
		select {
		case m.queue <- e:
		default:
			m.drop(n, a.log)
		}
	}
}

func (m *member) drop(number int, log zerolog.Logger) {
	dropped := m.dropped.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); m.logged.IsZero() || now.Sub(m.logged) >= eventLog {
		m.logged = now
		log.Warn().Int("listener", number).Int64("dropped", dropped).
			Msg("events dropped, listener is too slow")
	}
}

// run delivers events until ctx ends and the queues are empty, or the grace period has ended.
func (a *eventBus) run(ctx context.Context) {
	if !a.hasListeners() {
		return
	}
	delivery, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		var all sync.WaitGroup
		for n, m := range a.members {
			all.Go(func() { m.deliver(ctx, delivery, n, a.log) })
		}
		all.Wait()
	}()
	<-ctx.Done()
	select {
	case <-delivered:
	case <-time.After(eventGrace):
		a.log.Warn().Msg("events dropped at shutdown, listeners are too slow")
	}
}

// deliver calls the listener for each event until ctx has ended and the queue is empty, or delivery
// has ended.
func (m *member) deliver(ctx, delivery context.Context, number int, log zerolog.Logger) {
	for delivery.Err() == nil {
		select {
		case e := <-m.queue:
			m.call(delivery, e, number, log)
			continue
		default:
		}
		select {
		case e := <-m.queue:
			m.call(delivery, e, number, log)
		case <-ctx.Done():
			if len(m.queue) == 0 {
				return
			}
		}
	}
}

func (m *member) call(ctx context.Context, e jobs.Event, number int, log zerolog.Logger) {
	defer func() {
		if value := recover(); value != nil {
			log.Error().Int("listener", number).Str("event", string(e.Kind)).
				Str("panic", fmt.Sprint(value)).Msg("listener panicked")
		}
	}()
	m.listener(ctx, e)
}

// EventsDropped returns how many events were dropped because listeners were too slow.
func (s *Scheduler) EventsDropped() int64 {
	var dropped int64
	for _, m := range s.engine.eventBus.members {
		dropped += m.dropped.Load()
	}
	return dropped
}

// event returns an event with the current state of the firing.
func (f *firing) event(kind jobs.EventKind) jobs.Event {
	return jobs.Event{
		Kind: kind, At: f.clock.now(), Job: f.entry.Name, ScheduledAt: f.firing.ScheduledAt,
		Key: f.firing.Key, Recovery: f.firing.Recovery,
		Run: f.run, Replica: f.replica, Attempt: f.attempt, Locks: f.entry.requests,
	}
}

// publishTaken publishes that this replica has the firing.
func (f *firing) publishTaken() {
	if !f.eventBus.hasListeners() {
		return
	}
	e := f.event(jobs.EventScheduled)
	if f.adopted != uuid.Nil {
		e.Kind, e.State = jobs.EventAdopted, jobs.Waiting
	}
	f.eventBus.publish(e)
}

func (f *firing) publishStarted(run *jobs.Run) {
	if !f.eventBus.hasListeners() {
		return
	}
	e := f.event(jobs.EventStarted)
	e.Token, e.State, e.Lateness, e.Waited, e.Locking = run.Token, jobs.Running,
		e.At.Sub(f.firing.ScheduledAt), e.At.Sub(f.since), f.granted.Sub(f.asked)
	f.eventBus.publish(e)
}

func (f *firing) publishEnded(run *jobs.Run, v verdict, took time.Duration, again bool) {
	if !f.eventBus.hasListeners() {
		return
	}
	e := f.event(jobs.EventFinished)
	e.Token, e.State, e.Reason, e.Detail, e.Took = run.Token, v.state, v.reason, v.detail, took
	e.Held = time.Since(f.granted)
	if v.err != nil {
		e.Error = output.PlainText(output.Cut(v.err.Error(), maxErrorText))
	}
	switch {
	case again:
		e.Kind = jobs.EventRetried
	case v.state == jobs.Lost:
		e.Kind = jobs.EventLost
	}
	f.eventBus.publish(e)
}

// publishNotStarted publishes the end of a firing, or of a further attempt, that did not start.
func (f *firing) publishNotStarted(n storage.Note) {
	if !f.eventBus.hasListeners() {
		return
	}
	e := f.event(jobs.EventFinished)
	if n.State == jobs.Skipped {
		e.Kind = jobs.EventSkipped
	}
	e.State, e.Reason, e.Detail, e.Error, e.Blocker, e.Waited = n.State, n.Reason, n.Detail,
		n.Error, n.Blocker, e.At.Sub(f.since)
	e.Locking = time.Since(f.asked)
	f.eventBus.publish(e)
}

// publishLost publishes that a sweep recorded a run as lost.
func (u *upkeep) publishLost(lost storage.LostRun) {
	u.markLost(lost)
	if !u.eventBus.hasListeners() {
		return
	}
	u.eventBus.publish(jobs.Event{
		Kind: jobs.EventLost, At: u.clock.now(), Job: lost.Job, ScheduledAt: lost.ScheduledAt,
		Key: lost.Key, Recovery: lost.Recovery, Run: lost.ID,
		Replica: lost.Replica, Attempt: lost.Attempt, Token: lost.Token, State: jobs.Lost,
		Reason: lost.Reason, Detail: lost.Detail, Locks: lost.Held,
	})
}

// publishRevoked logs that the store ended a run that this replica tracks. If an operator did it,
// it publishes the event: a waiting run was cancelled, its job was removed, or its locks were
// released. The replica learns of it when the store refuses its next call.
func (f *firing) publishRevoked() {
	if !f.written && f.adopted == uuid.Nil {
		return
	}
	f.log.Warn().Msg("run ended by the store")
	if !f.eventBus.hasListeners() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.session.Context()), batchTimeout)
	defer cancel()
	r, err := f.store.Run(ctx, f.run)
	if err != nil {
		f.log.Warn().Err(err).Msg("read ended run failed, no event published")
		return
	}
	e := f.event(jobs.EventFinished)
	switch {
	case r.Replica != f.replica: // another replica has had it since
		return
	case r.State == jobs.Lost && r.Reason != jobs.ReasonSessionLost:
		e.Kind = jobs.EventLost
	case r.State != jobs.Cancelled || r.Reason != jobs.ReasonCancelled:
		// a sweep or this replica has published it
		return
	}
	e.State, e.Reason, e.Detail, e.Token, e.Waited = r.State, r.Reason, r.Detail, r.Token,
		e.At.Sub(f.since)
	f.eventBus.publish(e)
}

// PublishCancelled publishes that this replica cancelled a run that waited and that no replica had.
func (s *Scheduler) PublishCancelled(r jobs.Record) {
	e := s.engine
	e.eventBus.publish(jobs.Event{
		Kind: jobs.EventFinished, At: e.clock.now(), Job: r.Job, ScheduledAt: r.ScheduledAt,
		Key:      r.Key,
		Recovery: r.Recovery, Run: r.ID,
		Replica: e.replica, Attempt: r.Attempt, State: r.State, Reason: r.Reason, Detail: r.Detail,
	})
}

// publishMissed publishes that a scheduled time was recorded as missed.
func (u *upkeep) publishMissed(e *entry, m storage.Misfired) {
	if m.State != jobs.Missed || !u.eventBus.hasListeners() {
		return
	}
	u.eventBus.publish(jobs.Event{
		Kind: jobs.EventMissed, At: u.clock.now(), Job: m.Firing.Job,
		ScheduledAt: m.Firing.ScheduledAt,
		Run:         m.Run, Replica: u.replica,
		State: m.State, Reason: m.Reason, Detail: m.Detail, Locks: e.requests,
	})
}
