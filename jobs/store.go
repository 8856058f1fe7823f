package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// A store's own errors become these in its adapter.
var (
	// ErrSessionLost says that the session has ended or expired. It never
	// revives; a replica opens a new one.
	ErrSessionLost = locking.ErrSessionLost
	// ErrUnavailable says that the store could not be asked.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrRowHeld says that an open transaction of somebody held a row that the
	// call needs, for longer than the store waits. It wraps ErrUnavailable;
	// what of a batch needs other rows may well be done at once.
	ErrRowHeld = fmt.Errorf("%w: a row is held by an open transaction", ErrUnavailable)
	// ErrNotFound says that the store holds no such job or run.
	ErrNotFound = errors.New("not found")
	// ErrSuperseded says that a run's claim is gone: whatever it does now
	// must not take effect.
	ErrSuperseded = locking.ErrSuperseded
)

// MaxBatch is the most rows that one call of a store may carry.
const MaxBatch = 1000

// Store is where a cluster's sessions, firings and history live. It has the
// last word on who runs. Every method may be called concurrently and is one
// transaction, unless it says more; a method that returns an error may or may
// not have taken effect, and may be called again with the same arguments: it
// then tells the same outcome.
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
	// ClusterID is the id that the first migration drew: it separates
	// clusters that share a memcached.
	ClusterID() uuid.UUID
	Close()
}

// Session is a replica's life in the store.
type Session struct {
	ID      uuid.UUID // made by the replica, new for each session
	Replica string    // unique among living replicas by configuration; not enforced
	Version string    // of the binary
	TTL     time.Duration
	// Succeeds says that the replica's former lives are known to be over,
	// because its name is configured and its process has just begun: other
	// sessions of the same name expire at once.
	Succeeds bool
	// LockServers identifies the list of stage 1's servers that the replica
	// locks on, "" where that is not known.
	LockServers string
	// Table identifies the cron table of the replica's configuration, as
	// LockServers does the servers: "" where it is not compared.
	Table string
}

// ReplicaStatus are what a replica tells of itself with each heartbeat.
type ReplicaStatus struct {
	// ClockOffset is how far the store's clock is ahead of the replica's wall
	// clock; nil until it was measured.
	ClockOffset *time.Duration
	Workers     int
	Busy        int    // of the workers
	NotReady    string // why the replica starts nothing although it lives; "" where it does
}

// Beat is the answer to a heartbeat.
type Beat struct {
	Now    time.Time           // the store's clock
	Claims map[Token]uuid.UUID // every claim of the session, with its run
	// Asked and Answered are two instants of this process's clock, with their
	// monotonic readings, between which Now was read: around the statement, without
	// what was waited for a connection. Zero where the store does not tell: then the
	// whole call is taken.
	Asked, Answered time.Time
	Definitions     int64 // grows whenever another definition of a job comes into force
}

// Sessions registers replicas.
type Sessions interface {
	// Open registers the session, live for its TTL from now.
	Open(ctx context.Context, s Session) error
	// Heartbeat extends a session that is neither ended nor expired by its
	// TTL, or returns ErrSessionLost. The vitals take the place of those before.
	Heartbeat(ctx context.Context, session uuid.UUID, v ReplicaStatus) (Beat, error)
	// End ends the session: its waiting runs are free to be adopted at
	// once, its claims, if any are left, are swept as if it had expired. What
	// it carries counts no longer: from a further transaction on, or where that
	// fails from the next sweep.
	End(ctx context.Context, session uuid.UUID) error
	// Living is that of locking.Sessions.
	Living(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error)
	// Register says which definitions the session carries, each of another
	// job, beside what it carried of other jobs before. A definition that was
	// never seen is drawn the job's next version, which it keeps for good: what
	// makes it the same is name and hash. A description that differs is
	// written without a new version. In force is a job's newest version that a
	// living session carries, or where none does the one that was; a session
	// that has expired may count until it is swept. It returns the version of
	// each definition, by name, or ErrSessionLost when the session is ended or
	// expired. A job that nobody carried while another session lived, and that for
	// longer than MaxAbsence, is as one that is new: its scheduled times count from now. Of more than
	// MaxBatch definitions, each MaxBatch may be a transaction.
	Register(ctx context.Context, session uuid.UUID, definitions []Definition) (map[string]int64,
		error)
	// Withdraw says that the session no longer carries these jobs, and which Table
	// its replica's configuration has from now on. What is active of them is then
	// decided as at a session's end: the newest version that another living session
	// carries, or where none does the one that was. It does nothing for a session
	// that has ended. The two parts may be a transaction each.
	Withdraw(ctx context.Context, session uuid.UUID, table string, jobs []string) error
	// Versions returns what is active of every job, by name.
	Versions(ctx context.Context) (map[string]ActiveDefinition, error)
}

// Definition is a job as the store keeps it.
type Definition struct {
	Name     string
	Hash     string // of everything that decides what is fired and how
	Schedule string // in words or as written: for display
	Zone     string
	// Fingerprint is the same where scheduled times and their delays are, in one zone: by it
	// the cursor moves. Where it is "", or was, that is Schedule. It is not read back.
	Fingerprint string
	Handler     string
	Resources   []locking.Request
	MayOverlap  bool // runs of the job may overlap: Resources is all that they lock
	Recover     bool // a run that is lost has a successor
	Group       string
	After       []string // the jobs that it follows; the hash covers them
	Priority    int      // 1 to 9, of which 9 goes first

	Hooks []Hook // which webhooks are told how its runs end

	Description string // what it is for, in a sentence; the hash does not cover it
	Source      Source // where it comes from; the hash does not cover it either
}

// Source is where a job comes from.
type Source string

// The sources.
const (
	FromConfig Source = "config" // the configuration file, or the program itself
	FromStore  Source = "store"  // added at run time
)

// MaxAbsence is how long a job that nobody carries while others live is taken for one
// whose replica will be back: the misfire policy decides on its scheduled times meanwhile.
// After that it has left the cron table, and they are nobody's; what waits for it
// ends.
const MaxAbsence = time.Hour

// ActiveDefinition is the definition of a job that counts.
type ActiveDefinition struct {
	// negative where the job was removed: then none is active, and this was the last
	Version      int64
	CheckedUntil time.Time // as in Cursor: scheduled times up to here are decided
}

// StartRequest asks for a firing's run to begin.
type StartRequest struct {
	Run    uuid.UUID // made by the caller, the same in every try
	Firing Firing
	// of the job's definition; a firing of one that is not active ends as StartStale. 0 for adopted
	// runs: not checked
	Version   int64
	Attempt   int // from 1
	Requests  []locking.Request
	WaitSince time.Time // when the firing began to wait, by cluster time: decides who is older
	// Reserve is how long the place of the firing is reserved where it must wait (see
	// locking.Reserve). Those of its own job wait behind it in any case, and so do
	// those that wait for their turn in its group.
	Reserve time.Duration
}

// StartOutcome is what became of a StartRequest.
type StartOutcome int

// The outcomes of a start.
const (
	StartNotLive   StartOutcome = iota // the session is ended or expired: nothing was done
	StartGranted                       // it runs: Token is set
	StartBlocked                       // it waits, as recorded: Blocker is set
	StartDuplicate                     // another run has this firing
	StartStale                         // another definition of the job is active than the request's
	// StartPaused says that the job, its group or everything is paused, or that
	// the session is draining: nothing was done, or the waiting run goes on
	// waiting, for whoever may adopt it. Further attempts are let through, and
	// triggered runs where it is but a pause.
	StartPaused
)

// StartResult answers a StartRequest.
type StartResult struct {
	Outcome StartOutcome
	Token   Token
	Blocker *Blocker
	// of StartBlocked: ReasonLockHeld, ReasonGroupFull, ReasonOverlap or ReasonOlderWaiter
	Reason Reason
	// Queued says, of one that is blocked, that another run of the job has waited
	// longer for the job's name, whatever the blocker is.
	Queued bool
	// Reserved is for how much longer the place of one that is blocked is reserved,
	// by the store's clock; 0 where it is not.
	Reserved time.Duration
}

// Note writes a firing down that has not started: as waiting (and for what),
// or as skipped, cancelled or failed for good.
type Note struct {
	Run     uuid.UUID
	Firing  Firing
	Version int64 // as in StartRequest
	State   State // Waiting or a final one
	Reason  Reason
	Detail  string
	Error   string // empty keeps that of the attempt before
	Blocker *Blocker
	// of a waiting one: what others wait behind it for, instead of what was written before
	Requests  []locking.Request
	WaitSince time.Time
	Reserve   time.Duration // as in StartRequest, where this note gives it its place
}

// FinishRequest ends an attempt and gives its claim and grants back.
type FinishRequest struct {
	Run    uuid.UUID
	Token  Token
	State  State // final, or Waiting where another attempt follows
	Reason Reason
	Detail string
	Error  string
	Output string // valid UTF-8 without NUL, at most 64 KiB
	// Result is kept with the run; nil keeps that of the attempt before.
	Result json.RawMessage
	// Saved is what the job's next run finds, where this one ends as
	// Succeeded; nil leaves what there is.
	Saved json.RawMessage
	// LeftBehind says that the run's handler ignored the end of its context:
	// a transaction of its that holds the claim is ended, and rolls back.
	LeftBehind bool
}

// Firings starts and ends runs.
type Firings interface {
	// Start decides on each request, in the order given. Requests of one
	// call name different runs, at most MaxBatch of them.
	Start(ctx context.Context, session uuid.UUID, requests []StartRequest) ([]StartResult, error)
	// Note writes each note whose firing has no other run, and reports for
	// each whether it stands. It returns ErrSessionLost when the session is
	// ended or expired.
	Note(ctx context.Context, session uuid.UUID, notes []Note) ([]bool, error)
	// Finish ends each attempt whose claim stands, and reports for each
	// whether it did now or had done so before with the same state; false
	// means that the run was superseded. One that ends as Waiting has its
	// attempt counted up, one that ends as Lost is recovered as by Sweep. A
	// dead session may still finish what it has claims for. Requests of one call
	// are at most MaxBatch, with MaxFinishBytes of text together; more is an error
	// that wraps ErrTooLarge, and nothing is done.
	Finish(ctx context.Context, requests []FinishRequest) ([]bool, error)
}

// MaxRecoveries is how often one firing is recovered: a job that takes its
// replica down with it must not take down all of them, for ever.
const MaxRecoveries = 3

// RevokedDetail is the detail of a run whose claim was revoked.
const RevokedDetail = "its claim was taken away"

// NotRecovered is what the detail of a lost run ends with when its job recovers
// its runs, but this was the last recovery.
const NotRecovered = "; it was recovered 3 times before and is not again"

// LostRun is a run that became lost, with what its claim had been granted.
type LostRun struct {
	Record
	Held []locking.Request
}

// JobGoneDetail is the detail of a run that has waited for a job for longer than
// MaxAbsence, as long as which nobody carried it while others lived.
const JobGoneDetail = "no replica has had its job for an hour"

// Swept is what a sweep found.
type Swept struct {
	Sessions []string // replicas whose sessions were ended
	Lost     []LostRun
	Released []locking.Released // locks of programs, whose sessions have no runs
	Ended    int                // backends that were ended because they held a dead session's claim
}

// Misfired is a scheduled time that no replica started.
type Misfired struct {
	Firing Firing
	Run    uuid.UUID
	State  State // Missed or Skipped, or Waiting where it is to be run late
	Reason Reason
	Detail string
}

// Upkeep is done by any replica, now and then.
type Upkeep interface {
	// Sweep ends expired sessions. Their runs become lost, with a waiting
	// successor where the job's active definition says so and the firing was
	// recovered fewer than MaxRecoveries times; their waiting runs are free to be
	// adopted. What ended sessions carried counts no longer, by a further
	// transaction for each. What has waited for longer than MaxAbsence for a job that
	// nobody carried for as long, while another session lived, ends: as Skipped
	// where it never started, else as Cancelled.
	Sweep(ctx context.Context) (Swept, error)
	// Adopt gives waiting runs without a living session to the session, and
	// returns them. With them it returns the session's own waiting runs, however
	// many: an earlier call whose reply was lost may have given them. What is
	// given keeps its place among the waiting, but nobody waits behind it until
	// its next start. It leaves runs alone whose first start is refused as
	// StartPaused, and gives nothing to a session that is draining.
	Adopt(ctx context.Context, session uuid.UUID, a Adoption) ([]Record, error)
	// CheckMisfires takes at most MaxBatch checks, each of another job. It
	// calls find with the cursor of each that is to be done, by name, writes
	// what find returns and moves the cursors, in one transaction. It returns
	// each job's cursor as it now is, by name, those left out of which another
	// version is active. It does nothing and returns nil while another
	// replica is at it.
	CheckMisfires(ctx context.Context, checks []MisfireCheck,
		find func(job string, c Cursor) []Misfired) (map[string]time.Time, error)
	// Revoke ends a claim and its grants by force: the run becomes lost, and is
	// recovered as by Sweep, or cancelled. Used for claims that the replica
	// does not know of.
	Revoke(ctx context.Context, token Token, state State, reason Reason) error
	// Prune forgets a batch of what has been kept long enough, for the session,
	// whose turn it then is for the next half minute: others are told Busy. Runs
	// go when they ended longer ago than Keep, with all that belongs to them;
	// never one that has not ended, nor a scheduled time that the misfire check may yet
	// ask for, nor what a webhook is still to be told, nor the last run of a job
	// that has ended. The audit log, pauses that are over, definitions that nobody has
	// carried for as long, and failed sign-ins that no longer count go too.
	Prune(ctx context.Context, session uuid.UUID, r PruneRequest) (Pruned, error)
}

// PruneRequest asks for a batch of the history to be forgotten.
type PruneRequest struct {
	Keep  time.Duration
	Limit int        // rows of each kind that a batch looks at; 1 to MaxBatch
	After *RunCursor // where the batch before has ended; nil for the first of a round
}

// Pruned is what a batch forgot.
type Pruned struct {
	Runs        int
	Audited     int // lines of the audit log
	Pauses      int
	Definitions int
	Next        *RunCursor // where the next batch begins; nil: all old runs were looked at
	Busy        bool       // another replica is at it: nothing was done
}

// Adoption says which waiting runs a session would take up: late ones first,
// since they have a limit of their own, each kind in the order in which it is
// served where workers are short, as QueuePosition has it.
type Adoption struct {
	Jobs  []AdoptedJob // whose
	Known []uuid.UUID  // not these: the caller cares for them already
	Limit int          // at most so many
	Late  int          // and of late ones at most so many: an outage is not taken up all at once
}

// AdoptedJob is a job whose waiting runs are to be taken up.
type AdoptedJob struct {
	Name     string
	Priority int // 1 to 9
	// Threshold is how long ago a scheduled firing may have been due for its run
	// not to be late.
	Threshold time.Duration
}

// Ageing is how much longer a firing waits than one of a priority that is
// higher by 1, until it is served before it: a starved job overtakes in the end.
const Ageing = time.Minute

// QueuePosition returns the instant by which firings are served where workers are
// short, the earliest first: since when it waits, moved by its priority.
func QueuePosition(since time.Time, priority int) time.Time {
	return since.Add(-time.Duration(priority-DefaultPriority) * Ageing)
}

// LockView is one granted resource.
type LockView struct {
	Resource locking.Resource
	Mode     locking.Mode
	Slots    int
	Holder   locking.Owner
	Token    Token
	Since    time.Time
	Expires  time.Time // when the holder's session runs out unless it is renewed
}

// JobView is a job as the store knows it.
type JobView struct {
	Definition
	Version   int64
	Removed   bool    // it was added at run time, and removed: it fires no more
	Last      *Record // the last run that ended
	Pauses    []Pause // those that cover it now; not where all jobs are asked for
	UpdatedAt time.Time
}

// ReplicaView is a session, living or lately ended.
type ReplicaView struct {
	Session   uuid.UUID  `json:"session"`
	Name      string     `json:"replica"`
	Version   string     `json:"version"`
	StartedAt time.Time  `json:"started_at"`
	LastBeat  time.Time  `json:"last_heartbeat"`
	ExpiresAt time.Time  `json:"expires_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	// Stopped says that the replica ended the session itself and left no claims. A
	// session that ended otherwise expired, and a sweep recorded its runs as lost.
	Stopped bool `json:"stopped"`
	Running int  `json:"running"`
	// LockServers is the same for replicas that lock on the same servers.
	LockServers string `json:"lock_servers,omitempty"`
	// ConfigHash is the same for replicas whose configurations have the same jobs.
	ConfigHash string `json:"config_hash,omitempty"`
	Draining   bool   `json:"draining"`
	// What follows is as of the last heartbeat.
	// how far the store's clock is ahead of the replica's; nil where it is not known
	ClockOffset *int64 `json:"clock_offset_ms,omitempty"`
	Workers     int    `json:"workers"` // 0 where they are not known
	Busy        int    `json:"busy"`
	NotReady    string `json:"not_ready,omitempty"` // why it starts nothing although it lives
}

// JobDrift is a job that the configurations of living replicas do not have
// alike. Each list has names of replicas, sorted.
type JobDrift struct {
	Job     string   `json:"job"`
	Newest  []string `json:"newest"`            // they have its newest definition
	Older   []string `json:"older,omitempty"`   // they have another, and leave it to the newest
	Without []string `json:"without,omitempty"` // they don't know it
}

// RunFilter narrows a list of runs; zero fields do not.
type RunFilter struct {
	Job     string
	States  []State
	Replica string
	Reason  Reason // why they did not run, wait, or did not end by themselves
	// Resource asks for the runs of those jobs that lock it, or anything above
	// or beneath it, by the active definitions: what held it, and what it kept
	// waiting, is among them.
	Resource *locking.Resource
	From     time.Time  // created then or later
	Until    time.Time  // created before
	Before   *RunCursor // the page after this run
	After    *RunCursor // the page before this run: the oldest of those that are younger
	Limit    int        // 1 to MaxBatch; 0 means 100
}

// RunCursor is a place in the list of runs.
type RunCursor struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// History answers the page and the command line; it changes nothing.
type History interface {
	Listings
	Contention
	// Now is the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// Locks returns every grant, by resource, those on job names included.
	Locks(ctx context.Context) ([]LockView, error)
	// Jobs returns every job, by name.
	Jobs(ctx context.Context) ([]JobView, error)
	// Runs returns runs without output, the youngest first.
	Runs(ctx context.Context, f RunFilter) ([]Record, error)
	// Run returns one run with its output, or ErrNotFound.
	Run(ctx context.Context, id uuid.UUID) (Record, error)
	// Firing returns a job with its scheduled runs for one scheduled time, or ErrNotFound
	// where there is no such job.
	Firing(ctx context.Context, job string, scheduledAt time.Time) (FiringView, error)
	// Replicas returns living sessions and those ended in the last hour, by name.
	Replicas(ctx context.Context) ([]ReplicaView, error)
	// Drift returns the jobs that the configurations of living replicas do not
	// have alike, by name, at most limit of them. Where a replica has several
	// living sessions, its youngest counts; those without a Table don't.
	Drift(ctx context.Context, limit int) ([]JobDrift, error)
}

// FiringView is what the store knows of a job's scheduled firing for a scheduled time.
type FiringView struct {
	Now time.Time // the store's clock
	// The job's active definition, and since when it is.
	Version   int64
	Hash      string
	Schedule  string
	Zone      string
	UpdatedAt time.Time
	Removed   bool // as in JobView
	// CheckedUntil is the job's cursor: scheduled times up to here have a run or a record,
	// or don't count.
	CheckedUntil time.Time
	Runs         []Record // of the firing, without output: first the one that is no recovery
}
