package jobs

// Reason says, in one word, why a run did not run, waits, or was ended. It is empty for runs that
// ended by themselves.
type Reason string

// The reasons.
const (
	// a resource stayed held until the wait policy gave up
	ReasonLockHeld Reason = "lock_held"
	// an earlier run of the same job was still active
	ReasonOverlap Reason = "overlap"
	// waits behind a run that has waited longer for the same resource
	ReasonOlderWaiter Reason = "older_waiter"
	ReasonGroupFull   Reason = "group_full" // the limit of its group was reached
	// waits for a free worker of its replica, or had none in time
	ReasonNoWorker Reason = "no_worker"
	// memcached did not answer, and the configuration says skip
	ReasonLocksUnavailable Reason = "locks_unavailable"
	ReasonMisfire          Reason = "misfire" // no replica was up to start it
	// another scheduled time of the job ran in its place
	ReasonSuperseded Reason = "superseded"
	// its replica died, or could not confirm its session
	ReasonSessionLost Reason = "session_lost"
	ReasonClaimLost   Reason = "claim_lost" // its claim was revoked
	ReasonTimeout     Reason = "timeout"    // it took longer than its timeout
	ReasonShutdown    Reason = "shutdown"   // its replica was stopped before it ended
	ReasonCancelled   Reason = "cancelled"  // an operator ended it
	ReasonPanic       Reason = "panic"      // the handler panicked
	ReasonRetry       Reason = "retry"      // an attempt failed, another follows
	ReasonTriggered   Reason = "triggered"  // waits for a replica to adopt it
	// its dependencies have succeeded, and it waits for a replica to adopt it
	ReasonAfter    Reason = "after"
	ReasonPaused   Reason = "paused"   // its job, its group or everything was paused
	ReasonDeadline Reason = "deadline" // it could not start before its job's deadline
	ReasonReleased Reason = "released" // an operator released its locks
	ReasonJobGone  Reason = "job_gone" // no replica has had its job for longer than MaxAbsence
	// the clock of its replica was off by more than its limit
	ReasonClockOff Reason = "clock_off"
)

// Relation returns the words between a resource and its blocker.
func (r Reason) Relation() string {
	switch r {
	case ReasonGroupFull:
		return "had no free slot; one was held by"
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
