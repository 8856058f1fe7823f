package storage

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// JobFilter narrows a list of jobs.
type JobFilter struct {
	Names []string // only these jobs
	Text  string   // part of the name or the description; ignores case
	Group string
	// Ungrouped selects jobs that are in no group.
	Ungrouped bool
	Source    Source
	// State Waiting or Running selects jobs that have a run in this state. Runs that were triggered
	// for a later time do not count. A final state selects jobs whose last ended run has this
	// state.
	State jobs.State
	// Paused selects the jobs that are paused if it is true, and the others if it is false.
	Paused *bool
	After  string // the page after this name
	Before string // the page before this name; with After: between both
	Limit  int
}

// PageSize returns the size of a page for a limit: 100 for 0, and at most MaxBatch.
func PageSize(limit int) int {
	if limit <= 0 {
		return 100
	}
	return min(limit, MaxBatch)
}

// JobState is a job with the states of its runs, for numbers of jobs.
type JobState struct {
	Job, Description, Group string
	Source                  Source
	Paused                  bool       // an active pause covers the job
	Waiting, Running        bool       // it has a run in this state, as in JobFilter
	Last                    jobs.State // of its last run that ended; "" if none has
	Schedule, Zone, Handler string     // of its active definition
	CheckedUntil            time.Time  // as in Cursor
}

// Group is a group, with its number of jobs.
type Group struct {
	Name string `json:"group"`
	Jobs int    `json:"jobs"`
}

// Outcome is a run without details, for lists and charts.
type Outcome struct {
	Run         uuid.UUID   `json:"run"`
	ScheduledAt time.Time   `json:"scheduled_at"`
	State       jobs.State  `json:"state"`
	Reason      jobs.Reason `json:"reason,omitempty"`
	StartedAt   *time.Time  `json:"started_at,omitempty"`
	FinishedAt  *time.Time  `json:"finished_at,omitempty"`
	RetryWaits  []RetryWait `json:"retry_waits,omitempty"` // the oldest first, at most 32
	CreatedAt   time.Time   `json:"-"`
}

// OutcomesOf selects the outcomes of a job.
type OutcomesOf struct {
	Job   string
	After time.Time // only runs that were created after this time; zero: all
}

// AllOutcomesOf selects all outcomes of the jobs.
func AllOutcomesOf(names []string) []OutcomesOf {
	of := make([]OutcomesOf, len(names))
	for i, name := range names {
		of[i].Job = name
	}
	return of
}

// Took returns the time of all attempts, without the waits between them. It returns false if the
// run has not started or not ended.
func (o Outcome) Took() (time.Duration, bool) {
	return executedIn(o.StartedAt, o.FinishedAt, o.RetryWaits)
}

// EndCount is the number of runs of a job that ended with one state and reason.
type EndCount struct {
	Job    string      `json:"job"`
	State  jobs.State  `json:"state"`
	Reason jobs.Reason `json:"reason,omitempty"`
	Runs   int         `json:"runs"`
	Last   time.Time   `json:"last"` // creation of the youngest of them
}

// EndedJobsFilter selects jobs by the ends of their runs.
type EndedJobsFilter struct {
	From, Until time.Time // of the creation of the runs, before Until
	States      []jobs.State
	Most        int // runs of each state that are considered, the youngest
}

// EndedJobs are the jobs that an EndedJobsFilter selects.
type EndedJobs struct {
	Names map[string]bool
	More  bool // more runs than Most have one of the states, and their jobs may be missing
}

// NewEndedJobs selects jobs by the numbers of their runs by state. Stores use it, and consider one
// run more than Most.
func NewEndedJobs(counts []EndCount, f EndedJobsFilter) EndedJobs {
	found, runs := EndedJobs{Names: make(map[string]bool)}, make(map[jobs.State]int)
	for _, c := range counts {
		found.Names[c.Job] = true
		if runs[c.State] += c.Runs; runs[c.State] > f.Most {
			found.More = true
		}
	}
	return found
}

// JobPart is a job and a part of a time.
type JobPart struct {
	Job         string
	From, Until time.Time // created at From or later and before Until
}

// JobPartCount counts the runs of a JobPart.
type JobPartCount struct {
	Runs         int                      // in all states
	Unsuccessful map[jobs.State]int       // ended runs that did not succeed; nil: none
	Last         map[jobs.State]time.Time // scheduled time of the latest of them, by state
	// More says that there are more runs than CountRuns counts.
	More bool
}

// Add counts runs that did not succeed. Stores use it.
func (c *JobPartCount) Add(state jobs.State, runs int, last time.Time) {
	if c.Unsuccessful == nil {
		c.Unsuccessful, c.Last = make(map[jobs.State]int), make(map[jobs.State]time.Time)
	}
	c.Unsuccessful[state] += runs
	if last.After(c.Last[state]) {
		c.Last[state] = last
	}
}

// Bound sets More if more than most runs, or more than MaxUnsuccessful that did not succeed, were
// counted. Stores use it, and count one run more than that.
func (c *JobPartCount) Bound(most int) {
	unsuccessful := 0
	for _, n := range c.Unsuccessful {
		unsuccessful += n
	}
	c.More = c.Runs > most || unsuccessful > min(most, MaxUnsuccessful)
	c.Runs = min(c.Runs, most)
}

// RunCount counts the runs of a list.
type RunCount struct {
	// Runs is the number of runs in all states. With a reason or an error in the filter, only
	// unsuccessful runs count.
	Runs         int
	More         bool               // there may be more
	Unsuccessful map[jobs.State]int // ended runs that did not succeed; nil: none
	// MoreUnsuccessful says that there may be more of them.
	MoreUnsuccessful bool
}

// AddUnsuccessful counts the examined runs of a state. Some of them match the filter. If more than
// most were examined, there may be more. Stores use it, and examine one run more than most.
func (c *RunCount) AddUnsuccessful(state jobs.State, matching, examined, most int) {
	if c.Unsuccessful == nil && matching > 0 {
		c.Unsuccessful = make(map[jobs.State]int)
	}
	if matching > 0 {
		c.Unsuccessful[state] += min(matching, most)
	}
	c.MoreUnsuccessful = c.MoreUnsuccessful || examined > most
}

// OnlyUnsuccessful sets the number of all runs to that of the unsuccessful ones. Stores use it.
func (c *RunCount) OnlyUnsuccessful() {
	c.Runs, c.More = 0, c.MoreUnsuccessful
	for _, n := range c.Unsuccessful {
		c.Runs += n
	}
}

// ExaminedByState is the number of runs of each state that CountFiltered reads if no index has the
// runs that it counts.
const ExaminedByState = 2_000

// MaxUnsuccessful is the number of runs that did not succeed that CountRuns counts in each part:
// the youngest. It reads them, and not only entries of an index.
const MaxUnsuccessful = 1000

// MaxTallied is the maximum number of rows that a store counts, the youngest first. It applies to
// each state in EndCounts, and to each call of JobEndCounts and WaitSummaries.
const MaxTallied = 100_000

// Listings reads many jobs and runs. The time of a call does not grow with the history.
type Listings interface {
	// ListJobs returns jobs, sorted by name.
	ListJobs(ctx context.Context, f JobFilter) ([]JobView, error)
	// Job returns one job, or ErrNotFound.
	Job(ctx context.Context, name string) (JobView, error)
	// JobStates returns all jobs, sorted by name. It selects by state and pause as ListJobs does.
	JobStates(ctx context.Context) ([]JobState, error)
	// Groups returns all groups, sorted by name.
	Groups(ctx context.Context) ([]Group, error)
	// Resources returns the resources of the active definitions, sorted by key, without the names
	// of jobs.
	Resources(ctx context.Context) ([]locking.Resource, error)
	// Outcomes returns the last n of the selected runs of each job, the youngest first, without
	// runs of backfills.
	Outcomes(ctx context.Context, of []OutcomesOf, n int) (map[string][]Outcome, error)
	// FailuresBefore counts the runs of each job that failed, timed out or were lost after its last
	// success and before the given run. It considers only the last MaxFailures runs before that
	// run, and no runs of backfills. Runs in other states neither end nor extend the row.
	FailuresBefore(ctx context.Context, runs []RunBefore) (map[string]FailedRuns, error)
	// EndCounts counts the ended runs that did not succeed. It considers only runs that were
	// created at the time since or later.
	EndCounts(ctx context.Context, since time.Time) ([]EndCount, error)
	// JobEndCounts counts all ended runs of the job that were created at the time since or later.
	JobEndCounts(ctx context.Context, job string, since time.Time) ([]EndCount, error)
	// EndedJobs returns the jobs with runs in some states. The states are final, and not Succeeded.
	EndedJobs(ctx context.Context, f EndedJobsFilter) (EndedJobs, error)
	// CountRuns counts the runs of each part, in the order of the parts. It counts at most the
	// number most of a part. Of runs that succeeded or are active, it reads entries of an index
	// only.
	CountRuns(ctx context.Context, parts []JobPart, most int) ([]JobPartCount, error)
	// CountFiltered counts the runs that the filter selects. It ignores States, Later, Before,
	// After and Limit. It examines at most so many runs, and as many that did not succeed.
	CountFiltered(ctx context.Context, f RunFilter, most int) (RunCount, error)
	// FiringRuns returns the runs of a firing, sorted by Recovery. It ignores the fields Recovery
	// and KeyActor of the argument.
	FiringRuns(ctx context.Context, f Firing) ([]Record, error)
	// RunsBetween returns runs whose ids are from first to last, both included. It returns at most
	// limit runs, 1 to MaxBatch, sorted by id, without output.
	RunsBetween(ctx context.Context, first, last uuid.UUID, limit int) ([]Record, error)
}
