package jobs

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events. EventScheduled is published before the first write to the store, by the
// replica that passes the gate in memcached. If memcached does not answer, or there is none,
// several replicas can publish it for the same firing. Each other event is published on one
// replica: the one whose write the store accepted.
//
// If an operator ends a run in the store, the replica that had the run learns this when the store
// refuses its next call for the run. Then it publishes the event: EventFinished for a cancelled
// waiting run, EventLost for a run whose locks were released. For a cancelled run that no replica
// had, the replica that executed the action publishes it. Nothing is published for such a run if
// the action was the removal of the job, or if it was executed outside a replica, for example by
// the command scheduler cancel.
const (
	// the replica tries to start a scheduled firing
	EventScheduled EventKind = "scheduled"
	// the replica adopted a waiting run: triggered, recovered, late, added by a backfill, or left
	// by a replica that stopped, was drained or had no worker for it
	EventAdopted  EventKind = "adopted"
	EventStarted  EventKind = "started"  // an attempt begins
	EventRetried  EventKind = "retried"  // an attempt ended, and another follows
	EventFinished EventKind = "finished" // a run ended
	EventSkipped  EventKind = "skipped"  // a firing did not run, and will not
	// a firing that no replica started in time was recorded as missed
	EventMissed EventKind = "missed"
	// a run was recorded as lost, by its own replica or by a sweep
	EventLost EventKind = "lost"
)

// Event is an event of a firing. Fields that do not apply to its kind are zero.
type Event struct {
	Kind        EventKind
	At          time.Time // cluster time
	Job         string
	ScheduledAt time.Time
	Key         string // of the trigger or the backfill that added the run
	Recovery    int
	Run         uuid.UUID
	Replica     string            // where it happened; for a lost run the replica that ran it
	Attempt     int               // from 1
	Token       Token             // of the attempt's claim
	State       State             // after the event
	Reason      Reason            // why it did not run, or was ended
	Detail      string            // the reason in words
	Error       string            // of the handler
	Blocker     *Blocker          // of a skip: the blocker
	Locks       []locking.Request // what the job locks; read only

	// of a start: the time from the scheduled time to the start, however long the run waited; for a
	// run of a backfill, the time from its creation to the start
	StartDelay time.Duration
	// of a start or a skip: how long the attempt has waited on this replica
	Waited time.Duration
	// of a start or a skip: the part of Waited after the first try to lock
	Locking time.Duration
	Took    time.Duration // of an end: the time of the attempt's handler
	Held    time.Duration // of an end: the time from the grant of the locks to their release
}
