package storage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Contention reads how jobs wait for locks. The time of a call does not grow with the history.
type Contention interface {
	// JobRequests returns the jobs whose active definitions lock more than the job's own name,
	// sorted by name. It leaves out removed jobs.
	JobRequests(ctx context.Context) ([]JobRequests, error)
	// RunIntervals returns runs of jobs in a time range. Of each job, the youngest runs come first.
	RunIntervals(ctx context.Context, f RunIntervalFilter) ([]RunInterval, error)
	// WaitSummaries sums up the waits that ended between from and until, by waiting job, holding
	// job and resource. It returns at most MaxBatch summaries, the longest total wait first. If
	// there are more than MaxTallied waits, it counts the youngest.
	WaitSummaries(ctx context.Context, from, until time.Time) ([]WaitSummary, error)
	// Typical returns how long the last TypicalOf runs of each job took, as far as they have ended,
	// by name. It leaves out runs of backfills.
	Typical(ctx context.Context, names []string) (map[string]Typical, error)
}

// JobRequests is a job, with what it locks besides its own name.
type JobRequests struct {
	Job      string
	Requests []locking.Request
}

// RunIntervalFilter selects jobs and a time range.
type RunIntervalFilter struct {
	Jobs        []string
	From, Until time.Time
	// Each is the maximum number of runs per job that were created at From or later and before
	// Until: 1 to MaxRunIntervals. RunIntervalsBefore adds older runs.
	Each int
}

const MaxRunIntervals = 6000

// RunIntervalsBefore is the number of older runs of each job that RunIntervals also looks at: the
// last ones that were created before From. It returns those of them that were still active at From.
const RunIntervalsBefore = 3

// RunInterval is a run on a time line. It waited from CreatedAt to StartedAt.
type RunInterval struct {
	Run         uuid.UUID     `json:"run"`
	Job         string        `json:"job"`
	ScheduledAt time.Time     `json:"scheduled_at"`
	State       jobs.State    `json:"state"`
	Reason      jobs.Reason   `json:"reason,omitempty"`
	Replica     string        `json:"replica,omitempty"`
	CreatedAt   time.Time     `json:"created_at"`
	StartedAt   *time.Time    `json:"started_at,omitempty"`
	FinishedAt  *time.Time    `json:"finished_at,omitempty"`
	RetryWaits  []RetryWait   `json:"retry_waits,omitempty"` // the oldest first, at most 32
	BlockedBy   *jobs.Blocker `json:"blocked_by,omitempty"`
}

// WaitSummary is how long one job made another wait for one resource. A run that waited for several
// resources counts for each. Waits of less than a second are seldom recorded.
type WaitSummary struct {
	Job string `json:"job"` // the waiting job
	// the holding job; "" for a program that is not a job
	Holder string `json:"holder,omitempty"`
	// in display form; "job:" and the name if the holder was an earlier run of the same job
	Resource string `json:"resource"`
	Times    int    `json:"times"`
	// how many of these waits ended without a run
	NotRun  int           `json:"not_run"`
	Waited  time.Duration `json:"-"` // in total
	Longest time.Duration `json:"-"`
	Last    time.Time     `json:"last"` // when the latest of these waits ended
}

// MergeWaitSummaries adds up summaries of the same jobs and resource, and sorts them as
// WaitSummaries does.
func MergeWaitSummaries(parts []WaitSummary) []WaitSummary {
	type key struct{ job, holder, resource string }
	indexes := make(map[key]int)
	var sums []WaitSummary
	for _, p := range parts {
		if resource, err := locking.ParseDisplay(p.Resource); err == nil {
			p.Resource = resource.String()
		}
		k := key{p.Job, p.Holder, p.Resource}
		i, known := indexes[k]
		if !known {
			indexes[k] = len(sums)
			sums = append(sums, p)
			continue
		}
		s := &sums[i]
		s.Times += p.Times
		s.NotRun += p.NotRun
		s.Waited += p.Waited
		s.Longest = max(s.Longest, p.Longest)
		if p.Last.After(s.Last) {
			s.Last = p.Last
		}
	}
	slices.SortFunc(sums, func(a, b WaitSummary) int {
		return cmp.Or(cmp.Compare(b.Waited, a.Waited), cmp.Compare(b.Times, a.Times),
			cmp.Compare(a.Job, b.Job), cmp.Compare(a.Holder, b.Holder),
			cmp.Compare(a.Resource, b.Resource))
	})
	return sums[:min(len(sums), MaxBatch)]
}

// TypicalOf is the maximum number of runs on which Typical is based.
const TypicalOf = 20

// Typical is how long a job's runs take, in the meaning of Outcome.Took.
type Typical struct {
	Runs   int           // on which it is based
	Median time.Duration // 50% of the runs took no longer
	Long   time.Duration // 95% of the runs took no longer
}

// NewTypical returns the statistics of durations.
func NewTypical(lengths []time.Duration) Typical {
	if len(lengths) == 0 {
		return Typical{}
	}
	sorted := slices.Sorted(slices.Values(lengths))
	least := func(share, of int) time.Duration { return sorted[(len(sorted)*share+of-1)/of-1] }
	return Typical{Runs: len(sorted), Median: least(1, 2), Long: least(19, 20)}
}

// TypicalOutcomes returns the statistics of runs by job, for the jobs that have an ended run.
func TypicalOutcomes(outcomes map[string][]Outcome) map[string]Typical {
	found := make(map[string]Typical, len(outcomes))
	for name, last := range outcomes {
		var lengths []time.Duration
		for _, o := range last {
			if length, ended := o.Took(); ended {
				lengths = append(lengths, length)
			}
		}
		if len(lengths) > 0 {
			found[name] = NewTypical(lengths)
		}
	}
	return found
}

// Restart is a restart of a memcached server, which loses all its locks.
type Restart struct {
	Server    string    `json:"server"`     // as configured
	StartedAt time.Time `json:"started_at"` // by the server's clock; identifies the restart
	NoticedAt time.Time `json:"noticed_at"` // by the store's clock
	NoticedBy string    `json:"noticed_by"` // the first replica that noticed it
}

// Restarts holds the restarts that replicas noticed. Stores whose cluster uses memcached implement
// it.
type Restarts interface {
	// NoteRestart records a restart once, and sets its NoticedAt.
	NoteRestart(ctx context.Context, r Restart) error
	// Restarts returns the restarts noticed at from or later and before until, the oldest first, at
	// most MaxBatch.
	Restarts(ctx context.Context, from, until time.Time) ([]Restart, error)
}
