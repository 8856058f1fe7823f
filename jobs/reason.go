package jobs

// Reason says, in one word that can be counted, why a run did not run, waits,
// or did not end by itself. The empty Reason goes with runs that ran.
type Reason string

// The reasons.
const (
	// a resource stayed held until the wait policy gave up
	ReasonLockHeld Reason = "lock_held"
	// an earlier run of the same job was still active
	ReasonOverlap Reason = "overlap"
	// waits behind a run that has waited longer for the same resource
	ReasonOlderWaiter Reason = "older_waiter"
	ReasonGroupFull   Reason = "group_full" // as many runs of its group went on as may
	// waits for a worker of its replica to be free, or had none in time
	ReasonNoWorker Reason = "no_worker"
	// memcached could not be asked, and the configuration says skip
	ReasonLocksUnavailable Reason = "locks_unavailable"
	ReasonMisfire          Reason = "misfire" // no replica was up to start it
	// another scheduled time of the job was run in its place
	ReasonSuperseded Reason = "superseded"
	// its replica died, or could not confirm that it lives
	ReasonSessionLost Reason = "session_lost"
	ReasonClaimLost   Reason = "claim_lost" // its claim was taken away
	ReasonTimeout     Reason = "timeout"    // it outlived its timeout
	ReasonShutdown    Reason = "shutdown"   // its replica was stopped before it ended
	ReasonCancelled   Reason = "cancelled"  // an operator ended it
	ReasonPanic       Reason = "panic"      // the handler panicked
	ReasonRetry       Reason = "retry"      // an attempt failed, another follows
	ReasonTriggered   Reason = "triggered"  // waits for a replica to take it up
	// the jobs that it follows have succeeded: it waits for a replica to take it up
	ReasonAfter    Reason = "after"
	ReasonPaused   Reason = "paused"   // its job, its group or everything was paused
	ReasonDeadline Reason = "deadline" // it could not start before its job's deadline
	ReasonReleased Reason = "released" // an operator took its locks away
	ReasonJobGone  Reason = "job_gone" // no replica has had its job for longer than MaxAbsence
	// its replica's clock was too far off the store's to start anything
	ReasonClockOff Reason = "clock_off"
)

// relation says what a blocker is to the resource that it blocks.
func (r Reason) relation() string {
	switch r {
	case ReasonGroupFull:
		return "had no free place; one was held by"
	default:
		return "was held by"
	}
}

// Reasons lists all reasons.
func Reasons() []Reason {
	return []Reason{
		ReasonLockHeld, ReasonOverlap, ReasonOlderWaiter, ReasonNoWorker, ReasonLocksUnavailable,
		ReasonMisfire, ReasonSuperseded, ReasonSessionLost,
		ReasonClaimLost, ReasonTimeout, ReasonShutdown, ReasonCancelled, ReasonPanic, ReasonRetry,
		ReasonTriggered, ReasonAfter, ReasonPaused, ReasonDeadline,
		ReasonReleased, ReasonGroupFull, ReasonClockOff, ReasonJobGone,
	}
}
