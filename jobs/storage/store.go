package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Errors of stores. Each store translates its own errors to these.
var (
	// ErrSessionLost says that the session has ended or expired. It never revives; a replica opens
	// a new one.
	ErrSessionLost = locking.ErrSessionLost
	// ErrUnavailable says that the store did not answer.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrRowHeld says that an open transaction held a row that the call needs, for longer than the
	// store's lock timeout. It wraps ErrUnavailable. The other calls of a batch may succeed at
	// once.
	ErrRowHeld = fmt.Errorf("%w: an open transaction holds a row", ErrUnavailable)
	// ErrNotFound says that the store has no such job, run or other object.
	ErrNotFound = errors.New("not found")
	// ErrSuperseded says that the claim of a run is gone: nothing that the run still does may take
	// effect.
	ErrSuperseded = locking.ErrSuperseded
)

// MaxBatch is the most rows of one call of a store.
const MaxBatch = 1000

// Store holds the sessions, firings and history of a cluster, and decides who runs. Every method
// may be called concurrently and is one transaction, unless its comment says otherwise. A method
// that returns an error may have taken effect. It may be called again with the same arguments, and
// then returns the same outcome.
type Store interface {
	Sessions
	Firings
	Upkeep
	Dependents
	History
	Memory
	Control
	Watching
	Marked
	// ClusterID returns the id that the first migration generated. It separates clusters that share
	// a memcached.
	ClusterID() uuid.UUID
	Close()
}

// Session is the record in the store that a replica is alive.
type Session struct {
	ID      uuid.UUID // made by the replica, new for each session
	Replica string    // unique among live replicas by configuration; not enforced
	Version string    // of the binary
	TTL     time.Duration
	// Succeeds says that earlier sessions of the replica's name must expire at once: the name is
	// configured, and its process has just started.
	Succeeds bool
	// LockServers identifies the replica's list of memcached servers; "" if it is unknown.
	LockServers string
	// Table identifies the cron table of the replica's configuration; "" is not compared.
	Table string
}

// ReplicaStatus is the status that a replica sends with each heartbeat.
type ReplicaStatus struct {
	// ClockOffset is how far the store's clock is ahead of the replica's wall clock; nil before the
	// first measurement.
	ClockOffset *time.Duration
	Workers     int
	Busy        int    // of the workers
	NotReady    string // why the live replica starts nothing; "" if it does
}

// Beat is the answer to a heartbeat.
type Beat struct {
	Now    time.Time                // the store's clock
	Claims map[jobs.Token]uuid.UUID // every claim of the session, with its run
	// Asked and Answered are times of this process's clock, with monotonic readings, between which
	// Now was read: before and after the statement, without the wait for a connection. If they are
	// zero, the caller uses the times of the whole call.
	Asked, Answered time.Time
	Definitions     int64 // grows when another definition of a job becomes active
}

// Sessions registers replicas and their definitions.
type Sessions interface {
	// Open registers the session. It is live for its TTL from now.
	Open(ctx context.Context, s Session) error
	// Heartbeat extends a live session by its TTL, or returns ErrSessionLost. The status replaces
	// the previous one.
	Heartbeat(ctx context.Context, session uuid.UUID, v ReplicaStatus) (Beat, error)
	// End ends the session. Its waiting runs can be adopted at once. Remaining claims are swept as
	// if the session had expired. Its definitions stop to count in a second transaction, or with
	// the next sweep if that fails.
	End(ctx context.Context, session uuid.UUID) error
	// Living implements locking.Sessions.
	Living(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error)
	// Register adds definitions to the session, each of another job, besides those that it has. It
	// returns the version of each definition, by name, or ErrSessionLost if the session is not
	// live. A call with more than MaxBatch definitions may use a transaction per MaxBatch.
	//
	// Name and hash identify a definition. A new one gets the job's next version, for good. A
	// changed description is stored without a new version. The active definition is the newest
	// version that a live session has, or the previous active one if no live session has any. A
	// session that has expired may count until it is swept.
	//
	// If no replica had the job for longer than MaxAbsence while another session was live, the job
	// counts as new: its scheduled times count from now.
	Register(ctx context.Context, session uuid.UUID, definitions []Definition) (map[string]int64,
		error)
	// Withdraw removes jobs from the session, and sets the Table of its replica's configuration.
	// The active definitions of the jobs are then decided as at the end of a session: the newest
	// version of another live session, or the previous active one if there is none. It does nothing
	// for a session that has ended. The two parts may be separate transactions.
	Withdraw(ctx context.Context, session uuid.UUID, table string, jobs []string) error
	// Versions returns the active definition of every job, by name.
	Versions(ctx context.Context) (map[string]ActiveDefinition, error)
}

// Definition is a job as the store has it.
type Definition struct {
	Name     string
	Hash     string // of everything that decides when and how it is fired
	Schedule string // for display
	Zone     string
	// Fingerprint is equal for equal scheduled times and delays in one zone. The cursor moves when
	// it changes. If it is or was "", Schedule counts instead. It is not read back.
	Fingerprint string
	Handler     string
	Resources   []locking.Request
	MayOverlap  bool // runs of the job may overlap: they lock only Resources
	Recover     bool // a lost run is recovered
	Group       string
	After       []string // its dependencies; the hash covers them
	Priority    int      // 1 to 9; 9 goes first

	Hooks []jobs.Hook // webhooks to notify of the ends of its runs

	Description string // its purpose, in a sentence; not covered by the hash
	Source      Source // where it comes from; not covered by the hash
}

// Source is where a job comes from.
type Source string

// The sources.
const (
	FromConfig Source = "config" // the configuration file, or the program itself
	FromStore  Source = "store"  // added at run time
)

// MaxAbsence is how long a job may be absent from every live replica before it counts as removed.
// Until then the misfire policy decides on its scheduled times. After that they do not count, and
// its waiting runs end.
const MaxAbsence = time.Hour

// ActiveDefinition is the active version of a job, with the job's cursor.
type ActiveDefinition struct {
	// negative if the job was removed: none is active, and this was the last version
	Version      int64
	CheckedUntil time.Time // as in Cursor: scheduled times up to here are decided
}

// StartRequest requests the start of a firing's run.
type StartRequest struct {
	Run    uuid.UUID // made by the caller, the same in every try
	Firing jobs.Firing
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
	StartStale                         // another definition of the job is active than the request's
	// StartPaused says that the job, its group or everything is paused, or that the session is
	// draining. Nothing was done, or the waiting run goes on waiting and may be adopted. Further
	// attempts are never refused by it. Triggered runs are refused only by a drain.
	StartPaused
)

// StartResult answers a StartRequest.
type StartResult struct {
	Outcome StartOutcome
	Token   jobs.Token
	Blocker *jobs.Blocker
	// of StartBlocked: ReasonLockHeld, ReasonGroupFull, ReasonOverlap or ReasonOlderWaiter
	Reason jobs.Reason
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
	Firing  jobs.Firing
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
	Output string // valid UTF-8 without NUL, at most 64 KiB
	// Result is the result of the run; nil keeps that of the previous attempt.
	Result json.RawMessage
	// Saved is the state for the job's next run, if this run succeeded; nil keeps the previous
	// state.
	Saved json.RawMessage
	// LeftBehind says that the handler ignored the end of its context and was abandoned. An open
	// transaction that holds its claim is ended, and rolls back.
	LeftBehind bool
}

// Firings starts and ends runs.
type Firings interface {
	// Start decides on each request, in the given order. The requests of one call name different
	// runs, at most MaxBatch of them.
	Start(ctx context.Context, session uuid.UUID, requests []StartRequest) ([]StartResult, error)
	// Note writes each note whose firing has no other run, and reports which were written. It
	// returns ErrSessionLost if the session is not live.
	Note(ctx context.Context, session uuid.UUID, notes []Note) ([]bool, error)
	// Finish ends each attempt whose claim exists. It reports for each whether it is ended in that
	// state, now or by an earlier call. False means that the run was superseded. A run that ends as
	// Waiting gets the next attempt number. A run that ends as Lost is recovered as by Sweep. An
	// expired session may still finish the attempts of its claims.
	//
	// The requests of one call are at most MaxBatch, with at most MaxFinishBytes of text together.
	// A larger call does nothing and returns an error that wraps ErrTooLarge.
	Finish(ctx context.Context, requests []FinishRequest) ([]bool, error)
}

// MaxRecoveries is how often one firing is recovered. A job that crashes its replica must not crash
// all replicas, again and again.
const MaxRecoveries = 3

// RevokedDetail is the detail of a run whose claim was revoked.
const RevokedDetail = "its claim was revoked"

// NotRecovered ends the detail of a lost run whose job recovers its runs, if no recovery is left.
const NotRecovered = "; not recovered again after 3 recoveries"

// LostRun is a run that became lost, with the requests that its claim had been granted.
type LostRun struct {
	jobs.Record
	Held []locking.Request
}

// JobGoneDetail is the detail of a waiting run whose job was absent for longer than MaxAbsence,
// while other replicas were live.
const JobGoneDetail = "no replica had its job for an hour"

// Swept is the result of a sweep.
type Swept struct {
	Sessions []string // the replicas whose sessions were ended
	Lost     []LostRun
	Released []locking.Released // locks of programs, which have no runs
	// database connections that were ended because they held a dead session's claim
	Ended int
}

// Misfired is the record of a scheduled time that no replica started.
type Misfired struct {
	Firing jobs.Firing
	Run    uuid.UUID
	State  jobs.State // Missed or Skipped, or Waiting for a late run
	Reason jobs.Reason
	Detail string
}

// Upkeep is work that any replica may do for the cluster.
type Upkeep interface {
	// Sweep ends expired sessions. Their runs become lost. A lost run gets a waiting successor if
	// the job's active definition has recovery and the firing was recovered fewer than
	// MaxRecoveries times. Their waiting runs can be adopted. The definitions of ended sessions
	// stop to count, in one more transaction per session.
	//
	// Sweep also ends runs that have waited for longer than MaxAbsence for a job that no session
	// had for as long, while another session was live. They end as Skipped if they never started,
	// otherwise as Cancelled.
	Sweep(ctx context.Context) (Swept, error)
	// Adopt gives waiting runs without a live session to the session, and returns them. It also
	// returns all waiting runs that the session has already, because the reply of an earlier call
	// may have been lost. An adopted run keeps its position among the waiters, but no run queues
	// behind it until its next start. Adopt leaves out runs whose first start StartPaused would
	// refuse, and gives nothing to a draining session.
	Adopt(ctx context.Context, session uuid.UUID, a Adoption) ([]jobs.Record, error)
	// CheckMisfires executes at most MaxBatch checks, each of another job, in one transaction. It
	// calls find with the name and the cursor of each job, writes the records that find returns,
	// and moves the cursors. It returns the new cursor of each job, by name, without jobs that have
	// another active version. If another replica is checking, it does nothing and returns nil.
	CheckMisfires(ctx context.Context, checks []MisfireCheck,
		find func(job string, c Cursor) []Misfired) (map[string]time.Time, error)
	// Revoke ends a claim and its grants by force. The run becomes lost, and is recovered as by
	// Sweep, or is cancelled. It is for claims that the replica does not know.
	Revoke(ctx context.Context, token jobs.Token, state jobs.State, reason jobs.Reason) error
	// Prune deletes a batch of old history. For the next half minute only this session may prune;
	// others get Busy. It deletes runs that ended longer ago than Keep, with all their data.
	//
	// It never deletes active runs, scheduled times that a misfire check may still need, runs with
	// open deliveries, or a job's last ended run. It also deletes old lines of the audit log, old
	// ended pauses, definitions that no replica has had for as long, and expired failed sign-ins.
	Prune(ctx context.Context, session uuid.UUID, r PruneRequest) (Pruned, error)
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
	Audited     int // lines of the audit log
	Pauses      int
	Definitions int
	Next        *RunCursor // the start of the next batch; nil: all old runs were visited
	Busy        bool       // another replica is pruning: nothing was done
}

// Adoption selects the waiting runs that a session adopts: late runs first, because they have a
// limit of their own, each kind sorted by QueuePosition.
type Adoption struct {
	Jobs  []AdoptedJob // the jobs
	Known []uuid.UUID  // runs to leave out, because the caller tracks them
	Limit int          // the most runs
	Late  int          // the most late runs, so that an outage is not caught up at once
}

// AdoptedJob is a job whose waiting runs are to be adopted.
type AdoptedJob struct {
	Name     string
	Priority int // 1 to 9
	// Threshold is how long after its scheduled time a run is late.
	Threshold time.Duration
}

// Ageing is the wait that outweighs one level of priority. So firings of a low priority do not
// starve.
const Ageing = time.Minute

// QueuePosition returns the time by which firings are sorted if workers are short, the earliest
// first: the begin of the wait, moved by the priority.
func QueuePosition(since time.Time, priority int) time.Time {
	return since.Add(-time.Duration(priority-jobs.DefaultPriority) * Ageing)
}

// LockView is one granted resource.
type LockView struct {
	Resource locking.Resource
	Mode     locking.Mode
	Slots    int
	Holder   locking.Owner
	Token    jobs.Token
	Since    time.Time
	Expires  time.Time // when the holder's session expires unless it is renewed
}

// JobView is a job as the store knows it.
type JobView struct {
	Definition
	Version   int64
	Removed   bool         // it was added at run time and removed: it is not fired any more
	Last      *jobs.Record // the last run that ended
	Pauses    []Pause      // the active pauses that cover it; not set in lists of all jobs
	UpdatedAt time.Time
}

// ReplicaView is a session that is live or ended lately.
type ReplicaView struct {
	Session   uuid.UUID  `json:"session"`
	Name      string     `json:"replica"`
	Version   string     `json:"version"`
	StartedAt time.Time  `json:"started_at"`
	LastBeat  time.Time  `json:"last_heartbeat"`
	ExpiresAt time.Time  `json:"expires_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	// Stopped says that the replica ended the session itself and left no claims. Other ended
	// sessions expired, and a sweep recorded their runs as lost.
	Stopped bool `json:"stopped"`
	Running int  `json:"running"`
	// LockServers is equal for replicas with the same list of memcached servers.
	LockServers string `json:"lock_servers,omitempty"`
	// ConfigHash is equal for replicas whose configurations have the same jobs.
	ConfigHash string `json:"config_hash,omitempty"`
	Draining   bool   `json:"draining"`
	// The following fields are as of the last heartbeat. ClockOffset is how far the store's clock
	// is ahead of the replica's; nil if it is unknown.
	ClockOffset *int64 `json:"clock_offset_ms,omitempty"`
	Workers     int    `json:"workers"` // 0 if unknown
	Busy        int    `json:"busy"`
	NotReady    string `json:"not_ready,omitempty"` // why the live replica starts nothing
}

// JobDrift is a job that differs between the configurations of live replicas. Each list has names
// of replicas, sorted.
type JobDrift struct {
	Job     string   `json:"job"`
	Newest  []string `json:"newest"`            // they have its newest definition
	Older   []string `json:"older,omitempty"`   // they have an older one, and do not fire it
	Without []string `json:"without,omitempty"` // they do not have it
}

// RunFilter narrows a list of runs. Zero fields do not filter.
type RunFilter struct {
	Job     string
	States  []jobs.State
	Replica string
	Reason  jobs.Reason // as in Record
	// Resource selects the runs of jobs whose active definitions lock the resource, or one above or
	// below it. So it includes its holders and its waiters.
	Resource *locking.Resource
	From     time.Time  // created then or later
	Until    time.Time  // created before
	Before   *RunCursor // the page after this run
	After    *RunCursor // the page before this run: the oldest of the younger runs
	Limit    int        // 1 to MaxBatch; 0 means 100
}

// RunCursor is a position in the list of runs.
type RunCursor struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// History reads the data of the store for the page and the command line. It changes nothing.
type History interface {
	Listings
	Contention
	// Now returns the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// Locks returns every grant, by resource, including those on the names of jobs.
	Locks(ctx context.Context) ([]LockView, error)
	// Jobs returns every job, by name.
	Jobs(ctx context.Context) ([]JobView, error)
	// Runs returns runs without output, the youngest first.
	Runs(ctx context.Context, f RunFilter) ([]jobs.Record, error)
	// Run returns one run with its output, or ErrNotFound.
	Run(ctx context.Context, id uuid.UUID) (jobs.Record, error)
	// Firing returns a job with the runs of its scheduled firing at a time, or ErrNotFound if the
	// job does not exist.
	Firing(ctx context.Context, job string, scheduledAt time.Time) (FiringView, error)
	// Replicas returns live sessions and those that ended in the last hour, by name.
	Replicas(ctx context.Context) ([]ReplicaView, error)
	// Drift returns the jobs that differ between the configurations of live replicas, by name, at
	// most limit of them. If a replica has several live sessions, its youngest counts. Sessions
	// without a Table do not count.
	Drift(ctx context.Context, limit int) ([]JobDrift, error)
}

// FiringView is what the store knows of a job's firing at a scheduled time.
type FiringView struct {
	Now time.Time // the store's clock
	// The job's active definition, and since when it is active.
	Version   int64
	Hash      string
	Schedule  string
	Zone      string
	UpdatedAt time.Time
	Removed   bool // as in JobView
	// CheckedUntil is the job's cursor: scheduled times up to here have a run or a record, or do
	// not count.
	CheckedUntil time.Time
	Runs         []jobs.Record // of the firing, without output: the first run, then its recoveries
}

// OffsetMilliseconds returns the clock offset in milliseconds; nil if it is unknown.
func (v ReplicaStatus) OffsetMilliseconds() *int64 {
	if v.ClockOffset == nil {
		return nil
	}
	ms := v.ClockOffset.Round(time.Millisecond).Milliseconds()
	return &ms
}

// Memory holds what jobs save from run to run.
type Memory interface {
	// Saved returns the state that the job's runs saved last, or nil. It does not check whether the
	// job exists.
	Saved(ctx context.Context, job string) (json.RawMessage, error)
}
