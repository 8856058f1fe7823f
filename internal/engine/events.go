package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// events publishes what happens to firings. It may be used concurrently.
type events struct {
	replica string
	clock   *clusterClock
	runs    runReader
	bus     *eventBus
}

// of returns an event with the current state of the firing.
func (e *events) of(f *firing, kind jobs.EventKind) *jobs.Event {
	return &jobs.Event{
		Kind: kind, At: e.clock.now(), Job: f.entry.Name, ScheduledAt: f.ScheduledAt,
		Key: f.Key, Recovery: f.Recovery,
		Run: f.run, Replica: e.replica, Attempt: f.attempt, Locks: f.entry.requests,
	}
}

// taken publishes that this replica has the firing.
func (e *events) taken(f *firing) {
	if !e.bus.hasListeners() {
		return
	}
	event := e.of(f, jobs.EventScheduled)
	if f.adopted != uuid.Nil {
		event.Kind, event.State = jobs.EventAdopted, jobs.Waiting
	}
	e.bus.publish(event)
}

// started publishes that an attempt has started.
func (e *events) started(f *firing, c *claim) {
	if !e.bus.hasListeners() {
		return
	}
	event := e.of(f, jobs.EventStarted)
	due := f.ScheduledAt
	if f.runOfBackfill() {
		due = f.queued
	}
	event.Token, event.State, event.StartDelay, event.Waited, event.Locking = c.token, jobs.Running,
		event.At.Sub(due), event.At.Sub(f.since), c.granted.Sub(f.asked)
	e.bus.publish(event)
}

// ended publishes the end of an attempt.
func (e *events) ended(f *firing, c *claim, o outcome, took time.Duration, again bool) {
	if !e.bus.hasListeners() {
		return
	}
	event := e.of(f, jobs.EventFinished)
	event.Token, event.State, event.Reason, event.Detail, event.Took = c.token, o.state, o.reason,
		o.detail, took
	event.Held = time.Since(c.granted)
	if o.err != nil {
		event.Error = output.PlainText(output.Cut(o.err.Error(), maxErrorText))
	}
	switch {
	case again:
		event.Kind = jobs.EventRetried
	case o.state == jobs.Lost:
		event.Kind = jobs.EventLost
	}
	e.bus.publish(event)
}

// notStarted publishes the end of a firing, or of a further attempt, that did not start.
func (e *events) notStarted(f *firing, n storage.Note) {
	if !e.bus.hasListeners() {
		return
	}
	event := e.of(f, jobs.EventFinished)
	if n.State == jobs.Skipped {
		event.Kind = jobs.EventSkipped
	}
	event.State, event.Reason, event.Detail, event.Error, event.Blocker, event.Waited = n.State,
		n.Reason, n.Detail, n.Error, n.Blocker, event.At.Sub(f.since)
	event.Locking = time.Since(f.asked)
	e.bus.publish(event)
}

// revoked logs that a run which this replica tracks is no longer its own. If an operator has ended
// it, revoked publishes the event: a waiting run was cancelled, its job was removed, or its locks
// were released. If the replica is draining or stopping, another one may have adopted the run. The
// replica learns of it when the store refuses its next call.
func (e *events) revoked(f *firing) {
	if !f.written && f.adopted == uuid.Nil {
		return
	}
	f.warn().Msg("run ended by the store, or adopted by another replica")
	if !e.bus.hasListeners() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.session.Context()), batchTimeout)
	defer cancel()
	r, err := e.runs.Run(ctx, f.run)
	if err != nil {
		f.warn().Err(err).Msg("read ended run failed, no event published")
		return
	}
	event := e.of(f, jobs.EventFinished)
	switch {
	case r.Replica != e.replica: // another replica has had it since
		return
	case r.State == jobs.Lost && r.Reason != reasons.SessionLost:
		event.Kind = jobs.EventLost
	case r.State != jobs.Cancelled || r.Reason != reasons.Cancelled:
		// a sweep or this replica has published it
		return
	}
	event.State, event.Reason, event.Detail, event.Token, event.Waited = r.State, r.Reason,
		r.Detail, r.Token, event.At.Sub(f.since)
	e.bus.publish(event)
}

// lost publishes that a sweep recorded a run as lost.
func (e *events) lost(lost storage.LostRun) {
	if !e.bus.hasListeners() {
		return
	}
	e.bus.publish(&jobs.Event{
		Kind: jobs.EventLost, At: e.clock.now(), Job: lost.Job, ScheduledAt: lost.ScheduledAt,
		Key: lost.Key, Recovery: lost.Recovery, Run: lost.ID,
		Replica: lost.Replica, Attempt: lost.Attempt, Token: lost.Token, State: jobs.Lost,
		Reason: lost.Reason, Detail: lost.Detail, Locks: lost.Held,
	})
}

// missed publishes that a scheduled time of the job was recorded as missed, or as skipped because
// its deadline has passed.
func (e *events) missed(of *entry, m storage.Misfired) {
	if m.State == jobs.Waiting || !e.bus.hasListeners() {
		return
	}
	kind := jobs.EventMissed
	if m.State == jobs.Skipped {
		kind = jobs.EventSkipped
	}
	e.bus.publish(&jobs.Event{
		Kind: kind, At: e.clock.now(), Job: m.Firing.Job,
		ScheduledAt: m.Firing.ScheduledAt,
		Run:         m.Run, Replica: e.replica,
		State: m.State, Reason: m.Reason, Detail: m.Detail, Locks: of.requests,
	})
}

// cancelled publishes the end of a waiting run that belonged to no replica, and that an action on
// this replica cancelled.
func (e *events) cancelled(r storage.Record) {
	e.bus.publish(&jobs.Event{
		Kind: jobs.EventFinished, At: e.clock.now(), Job: r.Job, ScheduledAt: r.ScheduledAt,
		Key:      r.Key,
		Recovery: r.Recovery, Run: r.ID,
		Replica: e.replica, Attempt: r.Attempt, State: r.State, Reason: r.Reason, Detail: r.Detail,
	})
}
