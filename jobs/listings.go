package jobs

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// JobFilter narrows the list of jobs; zero fields do not.
type JobFilter struct {
	Text   string // in its name or its description, upper or lower case
	Group  string
	Source Source
	// State asks, of Waiting and Running, for jobs that have such a run; of
	// others, for jobs whose last run that ended ended so.
	State State
	// Paused asks for jobs that a pause covers now, or that none does.
	Paused *bool
	After  string // the page after this name
	Before string // the page before this name; with After: between them
	Limit  int    // 1 to MaxBatch; 0 means 100
}

// Group is a group of jobs.
type Group struct {
	Name string `json:"group"`
	Jobs int    `json:"jobs"`
}

// Outcome is a run in few words, for strips and plots of many.
type Outcome struct {
	Run         uuid.UUID  `json:"run"`
	ScheduledAt time.Time  `json:"scheduled_at"`
	State       State      `json:"state"`
	Reason      Reason     `json:"reason,omitempty"`
	StartedAt   *time.Time `json:"started_at,omitempty"`
	FinishedAt  *time.Time `json:"finished_at,omitempty"`
	Rests       []Rest     `json:"rests,omitempty"` // the oldest first, at most 32: see EndRest
}

// Took returns for how long attempts of the run went on, without the rests between
// them, or false where it did not run, or does still.
func (o Outcome) Took() (time.Duration, bool) {
	return executedIn(o.StartedAt, o.FinishedAt, o.Rests)
}

// Tally counts the runs of a job that ended in one way.
type Tally struct {
	Job    string    `json:"job"`
	State  State     `json:"state"`
	Reason Reason    `json:"reason,omitempty"`
	Runs   int       `json:"runs"`
	Last   time.Time `json:"last"` // when the youngest of them was created
}

// MaxTallied is how many runs a store looks at to count them, the youngest:
// of more, it does not tell.
const MaxTallied = 100_000

// Listings answer questions about many jobs and runs, each in a time that does
// not grow with the length of the history. They change nothing.
type Listings interface {
	// ListJobs returns jobs by name, each with its last run that ended.
	ListJobs(ctx context.Context, f JobFilter) ([]JobView, error)
	// Job returns one job with its last run that ended, or ErrNotFound.
	Job(ctx context.Context, name string) (JobView, error)
	// Groups returns the groups that jobs are in, by name.
	Groups(ctx context.Context) ([]Group, error)
	// Resources returns what the active definitions name, each once, by key;
	// the jobs' own names are not among them.
	Resources(ctx context.Context) ([]locking.Resource, error)
	// Outcomes returns the last runs of each of the jobs, at most n of each,
	// the youngest first. Names are at most MaxBatch.
	Outcomes(ctx context.Context, names []string, n int) (map[string][]Outcome, error)
	// Tallies counts the runs created since then that ended otherwise than
	// well, by job, state and reason, in no order. Of more than MaxTallied it
	// counts the youngest of each state.
	Tallies(ctx context.Context, since time.Time) ([]Tally, error)
	// JobTallies counts those of the job's youngest runs, MaxTallied at most,
	// that were created since then and have ended, by state and reason.
	JobTallies(ctx context.Context, job string, since time.Time) ([]Tally, error)
	// FiringRuns returns the runs of a firing, in the order of its recoveries;
	// which of them f itself names is not looked at.
	FiringRuns(ctx context.Context, f Firing) ([]Record, error)
}
