package jobs

import (
	"context"
	"errors"
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
// transaction; a method that returns an error may or may not have taken
// effect, and may be called again with the same arguments: it then tells the
// same outcome.
type Store interface {
	Sessions
	Firings
	Upkeep
	History
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
}

// Beat is the answer to a heartbeat.
type Beat struct {
	Now    time.Time           // the store's clock
	Claims map[Token]uuid.UUID // every claim of the session, with its run
}

// Sessions registers replicas.
type Sessions interface {
	// Open registers the session, live for its TTL from now.
	Open(ctx context.Context, s Session) error
	// Heartbeat extends a session that is neither ended nor expired by its
	// TTL, or returns ErrSessionLost.
	Heartbeat(ctx context.Context, session uuid.UUID) (Beat, error)
	// End ends the session: its waiting runs are free to be adopted at
	// once, its claims, if any are left, are swept as if it had expired.
	End(ctx context.Context, session uuid.UUID) error
	// Register writes the cron table of a replica: a definition that
	// differs from the stored one gets the next version. It returns each
	// job's version, by name. Jobs of the store that are not named stay.
	Register(ctx context.Context, jobs []Definition) (map[string]int64, error)
	// Versions returns the stored version of every job, by name.
	Versions(ctx context.Context) (map[string]int64, error)
}

// Definition is a job as the store keeps it.
type Definition struct {
	Name        string
	Hash        string // of everything that decides what is fired and how
	Schedule    string // in words or as written: for display
	Zone        string
	Handler     string
	Resources   []locking.Request
	Description string // what it is for, in a sentence
}

// StartRequest asks for a firing's run to begin.
type StartRequest struct {
	Run       uuid.UUID // made by the caller, the same in every try
	Firing    Firing
	Version   int64 // of the job's definition; a firing of an older one ends as StartStale. 0 for adopted runs: not checked
	Attempt   int   // from 1
	Requests  []locking.Request
	WaitSince time.Time // when the firing began to wait, by cluster time: decides who is older
}

// StartOutcome is what became of a StartRequest.
type StartOutcome int

// The outcomes of a start.
const (
	StartNotLive   StartOutcome = iota // the session is ended or expired: nothing was done
	StartGranted                       // it runs: Token is set
	StartBlocked                       // it waits, as recorded: Blocker is set
	StartDuplicate                     // another run has this firing
	StartStale                         // the job has a newer definition than the request's
)

// StartResult answers a StartRequest.
type StartResult struct {
	Outcome StartOutcome
	Token   Token
	Blocker *Blocker
	Reason  Reason // of StartBlocked: ReasonLockHeld, ReasonOverlap or ReasonOlderWaiter
}

// Note writes a firing down that has not started: as waiting (and for what),
// or as skipped, cancelled or failed for good.
type Note struct {
	Run       uuid.UUID
	Firing    Firing
	Version   int64 // as in StartRequest
	Attempt   int
	State     State // Waiting or a final one
	Reason    Reason
	Detail    string
	Error     string
	Blocker   *Blocker
	Requests  []locking.Request // of a waiting one: what it waits for
	WaitSince time.Time
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
	// attempt counted up. A dead session may still finish what it has claims
	// for.
	Finish(ctx context.Context, requests []FinishRequest) ([]bool, error)
}

// Swept is what a sweep found.
type Swept struct {
	Sessions []string           // replicas whose sessions were ended
	Lost     []Record           // runs that became lost
	Released []locking.Released // locks of programs, of sessions that have no runs
	Ended    int                // backends that were ended because they held a dead session's claim
}

// Misfired is a due that no replica started.
type Misfired struct {
	Firing Firing
	Run    uuid.UUID
	State  State // Missed, or Waiting where it is to be run late
	Reason Reason
	Detail string
}

// Cursor is how far a job's dues have been checked for misfires.
type Cursor struct {
	CheckedUntil time.Time
	Started      []time.Time // dues after CheckedUntil that have a run or a record, sorted
}

// Upkeep is done by any replica, now and then.
type Upkeep interface {
	// Sweep ends expired sessions: their runs become lost, with a waiting
	// successor where recoverable names the job; their waiting runs are
	// free to be adopted.
	Sweep(ctx context.Context, recoverable map[string]bool) (Swept, error)
	// Adopt gives waiting runs without a living session to the session,
	// the oldest first, those of the named jobs only.
	Adopt(ctx context.Context, session uuid.UUID, jobs []string, limit int) ([]Record, error)
	// CheckMisfires calls find with the cursor of each named job that has one
	// before until, writes what it returns and moves the cursors, in one
	// transaction. It does nothing and returns false while another replica
	// is at it.
	CheckMisfires(ctx context.Context, until map[string]time.Time, find func(job string, c Cursor) []Misfired) (bool, error)
	// Trigger adds a waiting run of the job that any replica may adopt. A
	// key that was used before for the job returns that run.
	Trigger(ctx context.Context, job, key string) (Record, error)
	// Revoke ends a claim and its grants by force: the run becomes lost or
	// cancelled. Used for claims that the replica does not know of.
	Revoke(ctx context.Context, token Token, state State, reason Reason) error
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
	Last      *Record // the last run that ended
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
	Running   int        `json:"running"`
}

// RunFilter narrows a list of runs; zero fields do not.
type RunFilter struct {
	Job     string
	States  []State
	Replica string
	Before  *RunCursor // the page after this run
	Limit   int        // 1 to MaxBatch; 0 means 100
}

// RunCursor is a place in the list of runs.
type RunCursor struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// History answers the page and the command line; it changes nothing.
type History interface {
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
	// Replicas returns living sessions and those ended in the last hour, by name.
	Replicas(ctx context.Context) ([]ReplicaView, error)
}
