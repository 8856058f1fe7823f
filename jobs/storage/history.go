package storage

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// History reads the data of the store for the page and the command line. It changes nothing.
type History interface {
	Listings
	Contention
	RunAttempts
	Histograms
	BackfillHistory
	// Now returns the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// Locks returns every grant, by resource, including those on the names of jobs.
	Locks(ctx context.Context) ([]LockView, error)
	// Jobs returns every job, by name.
	Jobs(ctx context.Context) ([]JobView, error)
	// Runs returns runs without output, the youngest first.
	Runs(ctx context.Context, f RunFilter) ([]Record, error)
	// Run returns one run with its output, or ErrNotFound.
	Run(ctx context.Context, id uuid.UUID) (Record, error)
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
	Removed   bool    // it was added at run time and removed: it is not fired any more
	Last      *Record // the last run that ended
	Pauses    []Pause // the active pauses that cover it; History.Jobs does not set them
	UpdatedAt time.Time
}

// ReplicaView is a session that is live or ended lately.
type ReplicaView struct {
	Session       uuid.UUID  `json:"session"`
	Name          string     `json:"replica"`
	Version       string     `json:"version"`
	StartedAt     time.Time  `json:"started_at"`
	LastHeartbeat time.Time  `json:"last_heartbeat"`
	ExpiresAt     time.Time  `json:"expires_at"`
	EndedAt       *time.Time `json:"ended_at,omitempty"`
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
	NotReady    string `json:"not_ready,omitempty"` // why the live replica cannot start runs
	// Databases are the databases of jobs as the replica sees them, by name.
	Databases []DatabaseState `json:"databases,omitempty"`
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
	Backfill uuid.UUID // the runs of a backfill
	// Later selects waiting runs that start later than now (see Record.StartsLater), or leaves them
	// out.
	Later *bool
	From  time.Time // created then or later
	Until time.Time // created before
	// Before selects the runs that were created before this one. The list begins with the youngest
	// run, so they are the next page.
	Before *RunCursor
	// After selects the runs that were created after this one, for the previous page. If there are
	// more than Limit, the page has the oldest of them.
	After *RunCursor
	Limit int // 1 to MaxBatch; 0 means 100
}

// RunCursor is a position in the list of runs.
type RunCursor struct {
	CreatedAt time.Time
	ID        uuid.UUID
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
	Runs         []Record // of the firing, without output: the first run, then its recoveries
	// Manual are the runs of triggers and backfills for this scheduled time, without output, the
	// oldest first. There are at most MaxManual.
	Manual []Record
}

// MaxManual is the limit of FiringView.Manual.
const MaxManual = 20
