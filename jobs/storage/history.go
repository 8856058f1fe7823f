package storage

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// History reads the store for the page and the command line.
type History interface {
	Listings
	Contention
	RunAttempts
	Histograms
	BackfillHistory
	// Now returns the time of the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// Locks returns all grants, sorted by resource, including those on the names of jobs.
	Locks(ctx context.Context) ([]LockView, error)
	// Jobs returns all jobs, sorted by name.
	Jobs(ctx context.Context) ([]JobView, error)
	// Runs returns runs without output, the youngest first.
	Runs(ctx context.Context, f RunFilter) ([]Record, error)
	// Run returns one run with its output, or ErrNotFound.
	Run(ctx context.Context, id uuid.UUID) (Record, error)
	// Firing returns a job with its runs for a scheduled time, or ErrNotFound if there is no such
	// job.
	Firing(ctx context.Context, job string, scheduledAt time.Time) (FiringView, error)
	// Replicas returns the live sessions and those that ended in the last hour, sorted by name. It
	// leaves out removed ones: see Actions.RemoveReplica.
	Replicas(ctx context.Context) ([]ReplicaView, error)
	// ReplicaSessions returns the sessions of replicas that were live at that time or later, sorted
	// by name and start. They are known for ReplicaSessionsKept after their end. It returns at most
	// n sessions, the youngest. It leaves out removed ones: see Actions.RemoveReplica.
	ReplicaSessions(ctx context.Context, since time.Time, n int) ([]ReplicaSession, error)
	// Drift returns at most limit jobs that differ between the configurations of live replicas,
	// sorted by name. Of several live sessions of a replica, the youngest counts. Sessions without
	// a Table do not count.
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
	Expires  time.Time // expiry of the holder's session
}

// JobView is a job with its state.
type JobView struct {
	Definition
	Version int64
	Removed bool // an added job that was removed
	// AbsentSince is when the last session that had the job ended or dropped it, or nil while a
	// session has the job. It is not set by History.Jobs.
	AbsentSince *time.Time
	Last        *Record // the last run that ended
	Pauses      []Pause // active pauses that cover it; not set by History.Jobs
	UpdatedAt   time.Time
}

// ReplicaView is a session that is live or ended in the last hour.
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
	// ClockOffset is the store's clock minus the replica's clock; nil if it is unknown. This field
	// and those that follow are as of the last heartbeat.
	ClockOffset *int64 `json:"clock_offset_ms,omitempty"`
	Workers     int    `json:"workers"` // 0 if unknown
	// Busy is the number of busy workers. A list of replicas with their runs counts the listed runs
	// instead.
	Busy     int    `json:"busy"`
	NotReady string `json:"not_ready,omitempty"` // why the replica cannot start runs
	Stopping bool   `json:"stopping"`            // it starts no more runs, and its session is open
	// Databases are the databases of jobs, by name.
	Databases []DatabaseState `json:"databases,omitempty"`
}

// LiveAt reports whether the session is live at now by the store's clock.
func (r ReplicaView) LiveAt(now time.Time) bool {
	return r.EndedAt == nil && now.Before(r.ExpiresAt)
}

// RunFilter narrows a list of runs.
type RunFilter struct {
	Job string
	// JobPrefix selects runs of known jobs whose names begin with it.
	JobPrefix string
	// Group selects runs of jobs whose active definitions are in the group.
	Group   string
	States  []jobs.State
	Replica string
	Reason  jobs.Reason
	// Resource selects runs of jobs whose active definitions lock the resource, or one above or
	// below it.
	Resource *locking.Resource
	// Error selects runs whose errors contain the text. ASCII letters match in both cases. Only the
	// newest runs are searched: see Searched.
	Error    string
	Backfill uuid.UUID // the runs of this backfill
	// Later selects the runs for which Record.StartsLater returns this value.
	Later *bool
	From  time.Time // created at this time or later
	Until time.Time // created before this time
	// Before selects runs created before this position, for the next page.
	Before *RunCursor
	// After selects runs created after this position, for the previous page. The page has the
	// oldest Limit of them.
	After *RunCursor
	Limit int
}

// Searched returns the number of runs in a state whose errors are searched for a text. Skipped and
// missed runs have an error only if an earlier attempt failed, and there may be very many of them.
func Searched(state jobs.State) int {
	if state == jobs.Skipped || state == jobs.Missed {
		return 500
	}
	return 5_000
}

// SearchedStates returns the states whose runs are searched for an error: those of the filter, or
// all states in which a run may have an error.
func (f *RunFilter) SearchedStates() []jobs.State {
	if f.Error == "" || len(f.States) > 0 {
		return f.States
	}
	return slices.DeleteFunc(jobs.States(), func(s jobs.State) bool { return s == jobs.Succeeded })
}

// Nothing reports whether no run can match, because the times of the filter exclude each other.
func (f *RunFilter) Nothing() bool {
	above, below := f.From, f.Until
	if f.After != nil && f.After.CreatedAt.After(above) {
		above = f.After.CreatedAt
	}
	if f.Before != nil && (below.IsZero() || f.Before.CreatedAt.Before(below)) {
		below = f.Before.CreatedAt
	}
	return !below.IsZero() && above.After(below)
}

// SetJobs sets Job to a name, or JobPrefix to the text before a star at the end.
func (f *RunFilter) SetJobs(text string) {
	prefix, star := strings.CutSuffix(text, "*")
	if f.Job, f.JobPrefix = text, ""; star {
		f.Job, f.JobPrefix = "", prefix
	}
}

// Jobs returns the text that SetJobs accepts for Job and JobPrefix.
func (f *RunFilter) Jobs() string {
	if f.JobPrefix != "" {
		return f.JobPrefix + "*"
	}
	return f.Job
}

// RunCursor is a position in the list of runs.
type RunCursor struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// FiringView is a job with its runs for a scheduled time.
type FiringView struct {
	Now time.Time // the store's clock
	// The active definition, and since when it is active.
	Version   int64
	Hash      string
	Schedule  string
	Zone      string
	Group     string
	UpdatedAt time.Time
	Removed   bool // as in JobView
	// CheckedUntil is the misfire cursor of the job.
	CheckedUntil time.Time
	Runs         []Record // the scheduled run without output, then its recoveries
	// Manual are the runs of triggers and backfills for this scheduled time, without output, the
	// oldest first; at most MaxManual.
	Manual []Record
}

const MaxManual = 20
