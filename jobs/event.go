package jobs

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// EventKind is what an Event tells of.
type EventKind string

// The kinds of events. Each is told on the one replica where it happens: each
// but EventScheduled by the replica whose word the store took. What an operator
// ends in the store is told by the replica that had the run, when it next asks the
// store about it: a run that waits and is cancelled, by itself or with its job, as
// EventFinished, one whose locks are released as EventLost. Of a cancelled run that
// no replica had the one tells through which it was cancelled; of what is done
// beside all replicas, or goes with its job, nobody does.
const (
	// the replica has taken up a scheduled time, and tries to start it
	EventScheduled EventKind = "scheduled"
	// the replica has taken up a waiting run: triggered, recovered, late, or left by another
	EventAdopted  EventKind = "adopted"
	EventStarted  EventKind = "started"  // an attempt begins
	EventRetried  EventKind = "retried"  // an attempt ended, and another follows
	EventFinished EventKind = "finished" // a run ended
	EventSkipped  EventKind = "skipped"  // a firing did not run, and won't
	// a scheduled time that no replica started was recorded as missed
	EventMissed EventKind = "missed"
	// a run was recorded as lost, by its own replica or by the one that swept
	EventLost EventKind = "lost"
)

// Event is something that happened to a firing. What does not go with its kind
// is zero.
type Event struct {
	Kind        EventKind
	At          time.Time // by the cluster's clock
	Job         string
	ScheduledAt time.Time
	Key         string // of a manual trigger
	Recovery    int
	Run         uuid.UUID
	Replica     string            // that it happened on; of a lost run the one that ran it
	Attempt     int               // from 1
	Token       Token             // of the attempt's claim
	State       State             // after it
	Reason      Reason            // why it did not run or end by itself
	Detail      string            // the reason in words
	Error       string            // of the handler
	Blocker     *Blocker          // of a skip: what stood in its way
	Locks       []locking.Request // what the job locks; not to be changed

	// of a start: after its scheduled time, also of a run that waited or is run late
	Lateness time.Duration
	// of a start or a skip: since it was ready to start, for a worker and for locks
	Waited time.Duration
	// of a start or a skip: of what it waited, since it first asked for its locks
	Locking time.Duration
	Took    time.Duration // of an end: the attempt's handler
	Held    time.Duration // of an end: since the locks were granted, until they were given back
}
