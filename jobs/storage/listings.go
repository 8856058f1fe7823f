package storage

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// JobFilter narrows the list of jobs. Zero fields do not filter.
type JobFilter struct {
	Names  []string // only jobs with these names, at most MaxBatch; nil: any
	Text   string   // part of its name or its description; upper and lower case are equal
	Group  string
	Source Source
	// State selects jobs by their runs. For Waiting and Running the job has such a run. For final
	// states the job's last ended run has the state.
	State jobs.State
	// Paused selects jobs that are paused, or that are not.
	Paused *bool
	After  string // the page after this name
	Before string // the page before this name; with After: between them
	Limit  int    // 1 to MaxBatch; 0 means 100
}

// PageSize returns the size of a page whose filter has that limit: 100 for 0, and at most MaxBatch.
func PageSize(limit int) int {
	if limit <= 0 {
		return 100
	}
	return min(limit, MaxBatch)
}

// Group is a group of jobs.
type Group struct {
	Name string `json:"group"`
	Jobs int    `json:"jobs"`
}

// Outcome is the summary of a run, for lists and charts of many runs.
type Outcome struct {
	Run         uuid.UUID   `json:"run"`
	ScheduledAt time.Time   `json:"scheduled_at"`
	State       jobs.State  `json:"state"`
	Reason      jobs.Reason `json:"reason,omitempty"`
	StartedAt   *time.Time  `json:"started_at,omitempty"`
	FinishedAt  *time.Time  `json:"finished_at,omitempty"`
	RetryWaits  []RetryWait `json:"retry_waits,omitempty"` // the oldest first, at most 32
}

// Took returns the time of all attempts of the run, without the waits between them. It returns
// false if the run has not started or not ended.
func (o Outcome) Took() (time.Duration, bool) {
	return ExecutedIn(o.StartedAt, o.FinishedAt, o.RetryWaits)
}

// Tally counts the runs of a job that ended with one state and one reason.
type Tally struct {
	Job    string      `json:"job"`
	State  jobs.State  `json:"state"`
	Reason jobs.Reason `json:"reason,omitempty"`
	Runs   int         `json:"runs"`
	Last   time.Time   `json:"last"` // when the youngest of them was created
}

// MaxTallied is the most rows that a store counts, the youngest first: the runs of each state for
// Tallies, the runs of the job for JobTallies, and the waits for WaitSummaries. Older rows are not
// counted.
const MaxTallied = 100_000

// Listings answers questions about many jobs and runs. The time of each answer does not grow with
// the length of the history. Its methods change nothing.
type Listings interface {
	// ListJobs returns jobs by name, each with its last run that ended.
	ListJobs(ctx context.Context, f JobFilter) ([]JobView, error)
	// Job returns one job with its last run that ended, or ErrNotFound.
	Job(ctx context.Context, name string) (JobView, error)
	// Groups returns the groups of all jobs, by name.
	Groups(ctx context.Context) ([]Group, error)
	// Resources returns the resources of the active definitions, each once, by key, without the
	// names of the jobs.
	Resources(ctx context.Context) ([]locking.Resource, error)
	// Outcomes returns the last runs of each of the jobs, at most n of each, the youngest first. It
	// leaves out the runs of backfills, which say nothing about current work. Names are at most
	// MaxBatch.
	Outcomes(ctx context.Context, names []string, n int) (map[string][]Outcome, error)
	// Tallies counts the ended runs that did not succeed and were created since then, by job, state
	// and reason, in no order. If a state has more than MaxTallied runs, it counts the youngest.
	Tallies(ctx context.Context, since time.Time) ([]Tally, error)
	// JobTallies counts the ended runs of the job created since then, at most the youngest
	// MaxTallied, by state and reason.
	JobTallies(ctx context.Context, job string, since time.Time) ([]Tally, error)
	// FiringRuns returns the runs of a firing, in the order of its recoveries. It ignores
	// f.Recovery and f.KeyActor: the runs of all actors with the key are included.
	FiringRuns(ctx context.Context, f Firing) ([]Record, error)
	// RunsBetween returns the runs without output whose ids are between first and last, which are
	// included. It returns them by id, at most limit of them: 1 to MaxBatch.
	RunsBetween(ctx context.Context, first, last uuid.UUID, limit int) ([]Record, error)
}
