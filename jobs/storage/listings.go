package storage

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// JobFilter narrows the list of jobs. Zero fields do not filter.
type JobFilter struct {
	Text   string // part of its name or its description, in any case
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
	Rests       []jobs.Rest `json:"rests,omitempty"` // the oldest first, at most 32: see EndRest
}

// Took returns the time of all attempts of the run, without the rests between them. It returns
// false if the run has not started or not ended.
func (o Outcome) Took() (time.Duration, bool) {
	return jobs.ExecutedIn(o.StartedAt, o.FinishedAt, o.Rests)
}

// Tally counts the runs of a job that ended in one way.
type Tally struct {
	Job    string      `json:"job"`
	State  jobs.State  `json:"state"`
	Reason jobs.Reason `json:"reason,omitempty"`
	Runs   int         `json:"runs"`
	Last   time.Time   `json:"last"` // when the youngest of them was created
}

// MaxTallied is the most runs that a store counts, the youngest first. Older runs are not counted.
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
	// Outcomes returns the last runs of each of the jobs, at most n of each,
	// the youngest first. Names are at most MaxBatch.
	Outcomes(ctx context.Context, names []string, n int) (map[string][]Outcome, error)
	// Tallies counts the runs created since then that did not succeed, by job, state and reason, in
	// no order. If there are more than MaxTallied, it counts the youngest of each state.
	Tallies(ctx context.Context, since time.Time) ([]Tally, error)
	// JobTallies counts the ended runs of the job created since then, at most the youngest
	// MaxTallied, by state and reason.
	JobTallies(ctx context.Context, job string, since time.Time) ([]Tally, error)
	// FiringRuns returns the runs of a firing, in the order of its recoveries. It ignores
	// f.Recovery.
	FiringRuns(ctx context.Context, f jobs.Firing) ([]jobs.Record, error)
}

// AddDrift adds a replica to the last job of found, or to a new job after it. Stores use it.
func AddDrift(found []JobDrift, job, replica string, without, newest bool) []JobDrift {
	if len(found) == 0 || found[len(found)-1].Job != job {
		found = append(found, JobDrift{Job: job})
	}
	last := &found[len(found)-1]
	switch {
	case without:
		last.Without = append(last.Without, replica)
	case newest:
		last.Newest = append(last.Newest, replica)
	default:
		last.Older = append(last.Older, replica)
	}
	return found
}

// String describes which replicas have which definition: "rollup: a has an older definition; b does
// not know it".
func (j JobDrift) String() string {
	var parts []string
	if len(j.Older) > 0 {
		parts = append(parts, fmt.Sprintf("%s an older definition",
			withVerb(j.Older, "has", "have")))
	}
	switch {
	case len(j.Without) > 0 && len(j.Older) == 0 && len(j.Newest) == 1:
		parts = append(parts, "only "+j.Newest[0]+" knows it")
	case len(j.Without) > 0:
		parts = append(parts, fmt.Sprintf("%s not know it", withVerb(j.Without, "does", "do")))
	}
	return j.Job + ": " + strings.Join(parts, "; ")
}

// withVerb joins the names of replicas, with a verb in the right number.
func withVerb(names []string, one, many string) string {
	if len(names) == 1 {
		return names[0] + " " + one
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " " + many
}
