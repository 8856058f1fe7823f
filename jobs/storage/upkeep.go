package storage

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Upkeep is work that any replica may do.
type Upkeep interface {
	// Sweep does this:
	//
	//   - It ends expired sessions, and removes their definitions in a transaction for each
	//     session. Other sessions can adopt their waiting runs.
	//   - It records running runs of ended sessions as lost, and deletes their claims.
	//   - It adds a waiting successor of a lost run if the active definition has Recover. A firing
	//     gets at most MaxRecoveries successors.
	//   - It ends runs of jobs that count as removed (see MaxAbsence), if the runs have waited for
	//     longer than MaxAbsence. They become Skipped if they never started, and otherwise
	//     Cancelled.
	Sweep(ctx context.Context) (Swept, error)
	// ExpireDisconnected expires sessions whose processes have lost their connection to the store.
	// It expires a session if two calls, most of a second apart, find it disconnected. The next
	// Sweep ends these sessions. The argument is the caller's session. A store may leave out any
	// session.
	ExpireDisconnected(ctx context.Context, session uuid.UUID) (Disconnected, error)
	// Adopt assigns waiting runs that belong to no live session, or to a stopping one, to the given
	// session, and returns them. It also returns waiting runs that the session already has and
	// a.Known does not name. It leaves out runs whose start would return StartPaused. A draining or
	// stopping session gets none.
	//
	// An adopted run keeps its position among the waiters. Other runs queue behind it after its
	// next Start. Later runs of the same job queue behind a triggered run even before that.
	Adopt(ctx context.Context, session uuid.UUID, a Adoption) ([]Record, error)
	// CheckMisfires executes checks, each of another job, in one transaction. It calls find with
	// each job and its cursor, writes the records that find returns, and moves the cursors. It
	// returns the new cursors by job. It leaves out jobs with another active version. It returns
	// nil if another replica is checking.
	CheckMisfires(ctx context.Context, checks []MisfireCheck,
		find func(job string, c Cursor) []Misfired) (map[string]time.Time, error)
	// Revoke deletes a claim that its replica does not know, and ends the run in the given state.
	// If the state is Lost, the run is recovered as by Sweep.
	Revoke(ctx context.Context, token jobs.Token, state jobs.State, reason jobs.Reason) error
	// Prune deletes a batch of the history that is older than Keep. It returns Busy if another
	// session has pruned in the last half minute. It deletes:
	//
	//   - ended runs with their data
	//   - entries of the audit log, ended pauses, ended backfills, and quarters of Histogram
	//   - finished waits, and restarts of memcached
	//   - definitions that no replica has, except the newest one of each job
	//   - expired failed sign-ins, whatever Keep is
	//
	// It keeps these runs:
	//
	//   - the last ended run of each job
	//   - runs with open deliveries
	//   - runs that a misfire check or a dependent may still need
	//
	// A request with Triggered deletes only ended runs of triggers, and keeps these runs too.
	Prune(ctx context.Context, session uuid.UUID, r PruneRequest) (Pruned, error)
}

// Swept is the result of a sweep.
type Swept struct {
	Sessions []string // replicas whose sessions were ended
	Lost     []LostRun
	Released []locking.Released // locks of programs, which have no runs
	// connections that were ended because they held a claim of a dead session
	Ended int
	// time until the next live session expires; 0: none is live
	NextExpiry time.Duration
}

// Disconnected is the result of a search for sessions whose processes have lost their connection.
type Disconnected struct {
	Replicas []string // whose sessions were expired
	// AfterHeartbeat: another call has no effect before the next heartbeat of this session. Other
	// sessions search, or there is nothing to find.
	AfterHeartbeat bool
	// Again is the time after which the next call should follow, if that is earlier than usual.
	// 0: the usual time. It is also valid with an error.
	Again time.Duration
}

// LostRun is a lost run, with the requests that its claim held.
type LostRun struct {
	Record
	Held []locking.Request
}

// MaxRecoveries is the maximum number of recoveries of a firing. It stops a job that crashes its
// replicas.
const MaxRecoveries = 3

// RevokedDetail is the detail of a run that Revoke ended.
const RevokedDetail = "its claim was revoked"

// NotRecovered is added to the detail of a lost run that had MaxRecoveries recoveries.
const NotRecovered = "; not recovered again after 3 recoveries"

// JobGoneDetail is the detail of a run or backfill that ended because its job counts as removed:
// see MaxAbsence.
const JobGoneDetail = "no replica had its job for an hour"

// Misfired records a misfire.
type Misfired struct {
	Firing Firing
	Run    uuid.UUID
	State  jobs.State // Missed, Skipped, or Waiting for a late run
	Reason jobs.Reason
	Detail string
}

// PruneRequest selects a batch for Prune.
type PruneRequest struct {
	Keep time.Duration
	// Triggered selects only the ended runs of triggers, and nothing else. Such a request has no
	// After. Runs of backfills are not runs of triggers.
	Triggered bool
	Limit     int // rows of each kind; 1 to MaxBatch
	// After is the end of the previous batch, or nil for the first, which also deletes what a round
	// deletes only once.
	After *RunCursor
}

// PruneRequests returns the first requests for the history that is older than keep, and for the
// runs of triggers that are older than keepTriggered if it is not 0. Their batches have the limit.
func PruneRequests(keep, keepTriggered time.Duration, limit int) []PruneRequest {
	requests := []PruneRequest{{Keep: keep, Limit: limit}}
	if keepTriggered > 0 {
		requests = append(requests, PruneRequest{Keep: keepTriggered, Triggered: true,
			Limit: limit})
	}
	return requests
}

// Rest returns the request for what r left, after r deleted p, and false if nothing is left.
func (r PruneRequest) Rest(p Pruned) (rest PruneRequest, more bool) {
	rest = r
	switch {
	case p.Next != nil:
		rest.After = p.Next
	case r.After == nil && !r.Triggered:
		rest.After = &RunCursor{CreatedAt: time.Unix(0, 0)} // before all runs
	}
	return rest, p.Next != nil || p.More || max(p.Audited, p.Pauses, p.Waits) >= r.Limit
}

// Pruned counts what a batch deleted.
type Pruned struct {
	Runs        int
	Audited     int // entries of the audit log
	Pauses      int
	Waits       int // ended waits of the timeline
	Definitions int
	Next        *RunCursor // After of the next request; nil: all old runs were visited
	More        bool       // a request with Triggered deletes more if it is repeated
	Busy        bool       // nothing was done
}
