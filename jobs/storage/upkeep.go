package storage

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Upkeep is work that any replica may do for the cluster.
type Upkeep interface {
	// Sweep ends expired sessions. Their running runs become lost. Their waiting runs can be
	// adopted. A lost run gets a waiting successor if the job's active definition has recovery and
	// the firing was recovered fewer than MaxRecoveries times. One more transaction per session
	// removes its definitions, so that they can no longer be active.
	//
	// Sweep also ends waiting runs of a job that counts as removed: no session had the job for
	// longer than MaxAbsence, while another session was live. Each of these runs has itself waited
	// for longer than MaxAbsence. They end as Skipped if they never started, otherwise as
	// Cancelled.
	Sweep(ctx context.Context) (Swept, error)
	// ExpireDisconnected expires sessions whose processes have lost their connection to the store,
	// and returns their replicas. The next Sweep ends these sessions. A process that lives connects
	// again at once, so a session expires only if a second call finds it disconnected, about a
	// second after the first. The caller has the given session.
	//
	// A store need not find any: each session without heartbeats expires anyway.
	ExpireDisconnected(ctx context.Context, session uuid.UUID) ([]string, error)
	// Adopt gives waiting runs without a live session to the session, and returns them. It also
	// returns the waiting runs that the session has already and that are not in a.Known, because
	// the reply of an earlier call may have been lost. An adopted run keeps its position among the
	// waiters. But no run queues behind it until the replica calls Start for it. Triggered runs
	// differ: later runs of the job queue behind them even before the first Start. Adopt leaves out
	// runs whose first start would return StartPaused, and gives nothing to a draining session.
	Adopt(ctx context.Context, session uuid.UUID, a Adoption) ([]Record, error)
	// CheckMisfires executes at most MaxBatch checks, each of another job, in one transaction. It
	// calls find with the name and the cursor of each job, writes the records that find returns,
	// and moves the cursors. It returns the new cursor of each job, by name, without jobs that have
	// another active version. If another replica is checking, it does nothing and returns nil.
	CheckMisfires(ctx context.Context, checks []MisfireCheck,
		find func(job string, c Cursor) []Misfired) (map[string]time.Time, error)
	// Revoke ends a claim and its grants by force. It is for claims that the replica does not know.
	// The run ends in the given state. If that is Lost, the run is recovered as by Sweep.
	Revoke(ctx context.Context, token jobs.Token, state jobs.State, reason jobs.Reason) error
	// Prune deletes a batch of old history. For the next half minute only this session may prune;
	// others get Busy. It deletes runs that ended longer ago than Keep, with all their data.
	//
	// It never deletes active runs, scheduled times that a misfire check may still need, runs with
	// open deliveries, or a job's last ended run. After Keep, it also deletes entries of the audit
	// log, ended pauses, ended backfills, quarters of Histogram, and definitions that no replica
	// has. It also deletes expired failed sign-ins.
	Prune(ctx context.Context, session uuid.UUID, r PruneRequest) (Pruned, error)
}

// Swept is the result of a sweep.
type Swept struct {
	Sessions []string // the replicas whose sessions were ended
	Lost     []LostRun
	Released []locking.Released // locks of programs, which have no runs
	// database connections that were ended because they held a dead session's claim
	Ended int
	// the time until the next live session expires, unless it is renewed before; 0: none is live
	NextExpiry time.Duration
}

// LostRun is a run that became lost. Held are the requests that its claim held.
type LostRun struct {
	Record
	Held []locking.Request
}

// MaxRecoveries is how often one firing is recovered. A job that crashes its replica must not crash
// all replicas, again and again.
const MaxRecoveries = 3

// RevokedDetail is the detail of a run whose claim was revoked.
const RevokedDetail = "its claim was revoked"

// NotRecovered is added to the detail of a lost run if its job has Recover, and the firing has had
// MaxRecoveries recoveries.
const NotRecovered = "; not recovered again after 3 recoveries"

// JobGoneDetail is the detail of a waiting run whose job was absent for longer than MaxAbsence,
// while other replicas were live.
const JobGoneDetail = "no replica had its job for an hour"

// Misfired is the record of a scheduled time that no replica started.
type Misfired struct {
	Firing Firing
	Run    uuid.UUID
	State  jobs.State // Missed or Skipped, or Waiting for a late run
	Reason jobs.Reason
	Detail string
}

// PruneRequest selects the batch of the history that Prune deletes.
type PruneRequest struct {
	Keep  time.Duration
	Limit int        // rows of each kind in a batch; 1 to MaxBatch
	After *RunCursor // the end of the previous batch; nil for the first of a round
}

// Pruned counts what a batch deleted.
type Pruned struct {
	Runs        int
	Audited     int // entries of the audit log
	Pauses      int
	Definitions int
	Next        *RunCursor // the field After of the next request; nil: all old runs were visited
	Busy        bool       // another replica is pruning: nothing was done
}
