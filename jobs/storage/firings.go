package storage

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Firings starts and ends runs.
type Firings interface {
	// Start decides on the requests in their order. Each request is for another run.
	Start(ctx context.Context, session uuid.UUID, requests []StartRequest) ([]StartResult, error)
	// Note writes notes. It leaves out a note in two cases: its firing has another run, or another
	// definition is active. It reports which notes were written, by this or an earlier call. It
	// returns ErrSessionLost if the session is not live.
	Note(ctx context.Context, session uuid.UUID, notes []Note) ([]bool, error)
	// Finish ends attempts, and deletes their claims. It reports for each request whether the
	// attempt has ended as requested, by this or an earlier call. False means that the run was
	// superseded, or cancelled instead (see FinishRequest.GivenBack). An expired session may still
	// finish attempts.
	//
	//   - If the state is Waiting and the claim is not given back, the run gets the next attempt
	//     number.
	//   - If the state is Lost, the run is recovered as by Sweep.
	//
	// If the requests exceed MaxFinishBytes, Finish does nothing and returns an error that wraps
	// jobs.ErrTooLarge.
	Finish(ctx context.Context, requests []FinishRequest) ([]bool, error)
	// Begun reports for each scheduled firing whether it has a run. Keys must be empty. The number
	// of firings is at most MaxBatch.
	Begun(ctx context.Context, firings []Firing) ([]bool, error)
	// Claims reports for each run whether it has a claim, in the order of the runs. A run may occur
	// twice. The number of runs is at most MaxBatch. Claims locks nothing. The claim of an expired
	// session exists until a sweep deletes it.
	Claims(ctx context.Context, runs []uuid.UUID) ([]RunClaim, error)
}

// RunClaim tells whether a run has a claim.
type RunClaim struct {
	Exists   bool
	Backfill bool // the run is of a backfill; only if the claim exists
	Paused   bool // a pause covers the job of the run; only if the claim exists
}

// Firing is a job at one scheduled time. Each run of a trigger or backfill is a firing of its own.
type Firing struct {
	Job         string
	ScheduledAt time.Time // whole microseconds, UTC
	// Key is the key of the trigger, or of the backfill's run; "" for a scheduled firing.
	Key string
	// KeyActor is the actor of the trigger. Keys of different actors are different. Start ignores
	// it.
	KeyActor string
	Recovery int // the number of the recovery; 0: none
}

// StartRequest requests the start of a firing's run.
type StartRequest struct {
	Run    uuid.UUID // made by the caller, the same in every try
	Firing Firing
	// New says that this is the first request for the run, and that the caller has not adopted the
	// run. A wrong value costs only time.
	New bool
	// of the caller's definition: if another one is active, the outcome is StartStale; 0: not
	// checked, for adopted runs
	Version  int64
	Attempt  int // from 1
	Requests []locking.Request
	// when the firing began to wait, by cluster time; decides which waiter is older
	WaitSince time.Time
	// Reserve is how long younger waiters cannot pass the run if it must wait: see locking.Reserve.
	// Runs of its job never pass it. While it waits for a slot of its group, runs of the group
	// never pass it. A wait for a run of its own job begins no reservation.
	Reserve time.Duration
}

// StartOutcome is the outcome of a StartRequest.
type StartOutcome int

// The outcomes of a start.
const (
	StartNotLive   StartOutcome = iota // the session is not live: nothing was done
	StartGranted                       // the run was started: Token is set
	StartBlocked                       // the run waits: Blocker is set
	StartDuplicate                     // another run has this firing
	StartStale                         // another definition of the job is active
	// StartPaused says that a pause covers the job, or that the session is draining. A new run was
	// not recorded. A waiting run still waits, and can be adopted.
	//
	//   - A pause refuses the first attempt of scheduled runs and of runs of backfills.
	//   - A drain refuses the first attempt of every run.
	StartPaused
	// StartUndecided says that the store did nothing. The caller repeats the request without New.
	StartUndecided
)

// StartResult answers a StartRequest.
type StartResult struct {
	Outcome StartOutcome
	Token   jobs.Token
	Blocker *jobs.Blocker
	// of StartBlocked: LockHeld, GroupFull, Overlap or OlderWaiter of package reasons
	Reason jobs.Reason
	// Backfill says that the blocker is a run of a backfill. Only with StartBlocked.
	Backfill bool
	// Queued says that another run of the job has waited longer for the job's name. The blocker may
	// be a different run. Only with StartBlocked.
	Queued bool
	// Reserved is how much longer the run's position is reserved, by the store's clock. Only with
	// StartBlocked.
	Reserved time.Duration
}

// Note records a firing that has not started.
type Note struct {
	Run    uuid.UUID
	Firing Firing
	// New says that this is the first request for the run, as in StartRequest. A wrong value costs
	// only time.
	New     bool
	Version int64      // as in StartRequest
	State   jobs.State // Waiting, Skipped, Cancelled or Failed
	Reason  jobs.Reason
	Detail  string
	Error   string // "" keeps that of the previous attempt
	Blocker *jobs.Blocker
	// of a waiting run: the requests behind which others queue; replaces the previous ones
	Requests  []locking.Request
	WaitSince time.Time
	Reserve   time.Duration // as in StartRequest; only when a run begins to wait
}

// FinishRequest ends an attempt.
type FinishRequest struct {
	Run    uuid.UUID
	Token  jobs.Token
	State  jobs.State // of the run: final, or Waiting if it does not end
	Reason jobs.Reason
	Detail string
	Error  string
	// Attempt is how the attempt ended, if another one follows.
	Attempt AttemptEnd
	Output  string // of the attempt; valid UTF-8 without NUL, at most 64 KiB
	// Result is the result of the run; nil keeps that of the previous attempt.
	Result json.RawMessage
	// Saved is the state for the job's next run, stored if this run succeeded; nil keeps the
	// previous state.
	Saved json.RawMessage
	// GivenBack says that the handler was not called. The run then waits as before its start, and
	// any session may adopt it, also this one. If an operator has asked to cancel the run, the
	// store cancels it instead, and Finish reports false. Only with Waiting, for a first attempt.
	GivenBack bool
	// LeftBehind says that the handler did not return after the end of its context. The store rolls
	// back the open transaction that holds the claim of the run.
	LeftBehind bool
}
