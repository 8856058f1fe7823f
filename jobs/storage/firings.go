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
	// Start decides on each request, in the given order. The requests of one call name different
	// runs, at most MaxBatch of them.
	Start(ctx context.Context, session uuid.UUID, requests []StartRequest) ([]StartResult, error)
	// Note writes each note whose firing has no other run, unless another definition is active. It
	// reports which notes were written, by this or an earlier call. It returns ErrSessionLost if
	// the session is not live.
	Note(ctx context.Context, session uuid.UUID, notes []Note) ([]bool, error)
	// Finish ends each attempt whose claim exists. It reports for each whether it is ended in that
	// state, now or by an earlier call. False means that the run was superseded. If the state is
	// Waiting, the run gets the next attempt number. If it is Lost, the run is recovered as by
	// Sweep. An expired session may still finish the attempts of its claims.
	//
	// The requests of one call are at most MaxBatch, with at most MaxFinishBytes of text together.
	// A larger call does nothing and returns an error that wraps jobs.ErrTooLarge.
	Finish(ctx context.Context, requests []FinishRequest) ([]bool, error)
}

// Firing is a job at one scheduled time, or a trigger of the job, in the whole cluster.
type Firing struct {
	Job         string
	ScheduledAt time.Time // whole microseconds, UTC
	// Key is the key of the trigger or of the backfill's run. It is empty for a scheduled firing,
	// so no trigger or backfill has the same firing.
	Key string
	// KeyActor is the actor who chose the key of a trigger: each actor has keys of its own. A start
	// ignores KeyActor, because its request has the id of the run.
	KeyActor string
	Recovery int // 0, or the number of the recovery
}

// StartRequest requests the start of a firing's run.
type StartRequest struct {
	Run    uuid.UUID // made by the caller, the same in every try
	Firing Firing
	// New says that this is the first request for the run, which the caller has not adopted.
	// Usually the firing of such a request has no run yet, and nothing refuses it. In all other
	// cases, a store may answer StartUndecided to a request with New. A wrong value costs time
	// only.
	New bool
	// the version of the definition; if another one is active the outcome is StartStale. 0 for
	// adopted runs: not checked
	Version  int64
	Attempt  int // from 1
	Requests []locking.Request
	// when the firing began to wait, by cluster time: decides which waiter is older
	WaitSince time.Time
	// Reserve is how long the position of the firing is reserved if it must wait (see
	// locking.Reserve). Firings of the same job, and firings that wait for the same group, queue
	// behind it in any case.
	Reserve time.Duration
}

// StartOutcome is the outcome of a StartRequest.
type StartOutcome int

// The outcomes of a start.
const (
	StartNotLive   StartOutcome = iota // the session is not live: nothing was done
	StartGranted                       // the run was started: Token is set
	StartBlocked                       // the run waits, as recorded: Blocker is set
	StartDuplicate                     // another run has this firing
	StartStale                         // the definition of the request is not the active one
	// StartPaused says that the job, its group or everything is paused, or that the session is
	// draining. Nothing was done, or the waiting run goes on waiting and may be adopted. Neither a
	// pause nor a drain refuses further attempts. A drain refuses triggered runs, and a pause does
	// not. Both refuse runs of backfills.
	StartPaused
	// StartUndecided says that the store did nothing for a request with New, and that the caller
	// asks again without New. Only for requests with New.
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
	// Queued says that another run of the job has waited longer for the job's name, whatever the
	// blocker is. Only with StartBlocked.
	Queued bool
	// Reserved is how much longer the position of a blocked run is reserved, by the store's clock;
	// 0 if it is not.
	Reserved time.Duration
}

// Note records a firing that has not started: as waiting, with its blocker, or as skipped,
// cancelled or failed for good.
type Note struct {
	Run     uuid.UUID
	Firing  Firing
	Version int64      // as in StartRequest
	State   jobs.State // Waiting or a final one
	Reason  jobs.Reason
	Detail  string
	Error   string // empty keeps that of the previous attempt
	Blocker *jobs.Blocker
	// of a waiting run: the lock requests behind which others queue; replaces the previous ones
	Requests  []locking.Request
	WaitSince time.Time
	Reserve   time.Duration // as in StartRequest, if this note creates the position
}

// FinishRequest ends an attempt and gives back its claim and grants.
type FinishRequest struct {
	Run    uuid.UUID
	Token  jobs.Token
	State  jobs.State // final, or Waiting if another attempt follows
	Reason jobs.Reason
	Detail string
	Error  string
	// Attempt is how the attempt ended, if another one follows. State, Reason and Detail are those
	// of the run.
	Attempt AttemptEnd
	Output  string // of the attempt; valid UTF-8 without NUL, at most 64 KiB
	// Result is the result of the run; nil keeps that of the previous attempt.
	Result json.RawMessage
	// Saved is the state for the job's next run, if this run succeeded; nil keeps the previous
	// state.
	Saved json.RawMessage
	// LeftBehind says that the handler ignored the end of its context and was abandoned. An open
	// transaction that holds its claim is ended, and rolls back.
	LeftBehind bool
}
