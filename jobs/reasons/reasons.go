// Package reasons has the reasons of runs: why a run did not run, waits, or was ended.
package reasons

// Reason says, in one word, why a run did not run, waits, or was ended. It is empty for runs that
// are running, succeeded, or failed by an error of the handler.
type Reason string

// The reasons.
const (
	// a resource stayed held until the wait policy gave up
	LockHeld Reason = "lock_held"
	// an earlier run of the same job was still active
	Overlap Reason = "overlap"
	// waits behind a run that has waited longer for the same resource
	OlderWaiter Reason = "older_waiter"
	GroupFull   Reason = "group_full" // the limit of its group was reached
	// waits for a free worker, or no live replica could start it in time
	NoWorker Reason = "no_worker"
	// memcached did not answer, and the configuration says skip
	LocksUnavailable Reason = "locks_unavailable"
	// the database with the tables of its job did not answer, or lacks the tables of the fence
	DatabaseUnavailable Reason = "database_unavailable"
	Misfire             Reason = "misfire" // no replica that has the job was up to start it in time
	// another firing of the job took its place
	Superseded Reason = "superseded"
	// its replica died, or could not confirm its session
	SessionLost Reason = "session_lost"
	ClaimLost   Reason = "claim_lost" // its claim was revoked
	Timeout     Reason = "timeout"    // it took longer than its timeout
	Shutdown    Reason = "shutdown"   // its replica was stopped before it ended
	Cancelled   Reason = "cancelled"  // an operator ended it
	Panic       Reason = "panic"      // the handler panicked
	Retry       Reason = "retry"      // an attempt failed, another follows
	Triggered   Reason = "triggered"  // waits for a replica to adopt it
	// its dependencies have succeeded, and it waits for a replica to adopt it
	After    Reason = "after"
	Backfill Reason = "backfill" // a backfill added it, and it waits for a replica to adopt it
	Paused   Reason = "paused"   // its job, its group or everything was paused
	Deadline Reason = "deadline" // it could not start before its job's deadline
	Released Reason = "released" // an operator released its locks
	// no replica has had its job for storage.MaxAbsence, or a reload removed the job
	JobGone Reason = "job_gone"
	// the clock of its replica was off by more than clock.max_offset
	ClockOff Reason = "clock_off"
)

// Relation returns the words between a resource and its blocker in a text, such as "was held by".
func (r Reason) Relation() string {
	switch r {
	case GroupFull:
		return "had no free slot; one was held by"
	default:
		return "was held by"
	}
}

// All lists all reasons.
func All() []Reason {
	return []Reason{
		LockHeld, Overlap, OlderWaiter, NoWorker, LocksUnavailable, DatabaseUnavailable,
		Misfire, Superseded, SessionLost,
		ClaimLost, Timeout, Shutdown, Cancelled, Panic, Retry,
		Triggered, After, Backfill, Paused, Deadline,
		Released, GroupFull, ClockOff, JobGone,
	}
}
