package jobs

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// Contention answers what the pages of locks ask about many jobs and a time, each
// question in a time that does not grow with the length of the history. It
// changes nothing.
type Contention interface {
	// Lockers returns the jobs whose active definitions name anything to lock
	// but the job itself, by name; those that were removed are not among them.
	Lockers(ctx context.Context) ([]Locker, error)
	// RunIntervals returns what the jobs' runs did within a time: of each job the
	// youngest, in no order between jobs.
	RunIntervals(ctx context.Context, f RunIntervalFilter) ([]RunInterval, error)
	// WaitSummaries adds up what runs waited for and no longer do, of those whose
	// wait ended from from on and before until, by who waited for whom and what,
	// the longest together first; at most MaxBatch sums. Of more than MaxTallied
	// waits it adds up the youngest.
	WaitSummaries(ctx context.Context, from, until time.Time) ([]WaitSummary, error)
	// Typical returns how long the jobs' runs take, by name, as far as any of
	// the last TypicalOf has ended. Names are at most MaxBatch.
	Typical(ctx context.Context, names []string) (map[string]Typical, error)
}

// Locker is a job and what it locks beside its own name.
type Locker struct {
	Job      string
	Requests []locking.Request
}

// RunIntervalFilter says of which jobs, and of what time, stretches are asked for.
type RunIntervalFilter struct {
	Jobs        []string // at most MaxBatch
	From, Until time.Time
	// Each is how many runs of each job are returned at most, of those that were
	// created from From on and before Until: 1 to MaxRunIntervals. Of those before, the
	// last RunIntervalsBefore are looked at for any that went on then.
	Each int
}

// MaxRunIntervals is how many runs of one job are returned at most.
const MaxRunIntervals = 6000

// RunIntervalsBefore is how many runs of each job that were created before a time are
// looked at for those that went on in it. Most jobs have one run at a time.
const RunIntervalsBefore = 3

// RunInterval is a run in time: it waited from CreatedAt to StartedAt, or ran at once.
type RunInterval struct {
	Run         uuid.UUID  `json:"run"`
	Job         string     `json:"job"`
	ScheduledAt time.Time  `json:"scheduled_at"`
	State       State      `json:"state"`
	Reason      Reason     `json:"reason,omitempty"`
	Replica     string     `json:"replica,omitempty"`
	CreatedAt   time.Time  `json:"created_at"`
	StartedAt   *time.Time `json:"started_at,omitempty"`
	FinishedAt  *time.Time `json:"finished_at,omitempty"`
	Rests       []Rest     `json:"rests,omitempty"` // the oldest first, at most 32: see EndRest
	BlockedBy   *Blocker   `json:"blocked_by,omitempty"`
}

// WaitSummary sums up how one job kept another waiting for one resource. A run that
// waited for several in turn counts for each of them. Waits that nobody wrote
// down, of less than a second mostly, are not in it.
type WaitSummary struct {
	Job string `json:"job"` // that waited
	// the job in its way; "" for a program that is no job
	Holder string `json:"holder,omitempty"`
	// as people write it; "job:" and its name where the holder was an earlier run of the job
	Resource string `json:"resource"`
	Times    int    `json:"times"`
	// of these, how often the run was skipped or ended otherwise, and never got it
	Unrun   int           `json:"unrun"`
	Waited  time.Duration `json:"-"` // in sum
	Longest time.Duration `json:"-"`
	Last    time.Time     `json:"last"` // when the youngest of the waits ended
}

// MergeWaitSummaries puts sums together that are of the same jobs and resource, and
// sorts them as Contention has it.
func MergeWaitSummaries(parts []WaitSummary) []WaitSummary {
	type key struct{ job, holder, resource string }
	places := make(map[key]int)
	var sums []WaitSummary
	for _, p := range parts {
		if resource, err := locking.ParseDisplay(p.Resource); err == nil {
			p.Resource = resource.String()
		}
		k := key{p.Job, p.Holder, p.Resource}
		i, known := places[k]
		if !known {
			places[k] = len(sums)
			sums = append(sums, p)
			continue
		}
		s := &sums[i]
		s.Times, s.Unrun, s.Waited, s.Longest = s.Times+p.Times, s.Unrun+p.Unrun, s.Waited+p.Waited,
			max(s.Longest, p.Longest)
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

// TypicalOf is of how many of a job's last runs Typical is.
const TypicalOf = 20

// Typical is how long a job's runs take: all attempts together, without the rests
// between them.
type Typical struct {
	Runs   int           // that it is known from
	Median time.Duration // half of them took no longer
	Long   time.Duration // 19 of 20 of them took no longer
}

// NewTypical returns what is typical of some lengths; the zero Typical where
// there are none.
func NewTypical(lengths []time.Duration) Typical {
	if len(lengths) == 0 {
		return Typical{}
	}
	sorted := slices.Sorted(slices.Values(lengths))
	least := func(share, of int) time.Duration { return sorted[(len(sorted)*share+of-1)/of-1] }
	return Typical{Runs: len(sorted), Median: least(1, 2), Long: least(19, 20)}
}

// Restart is a restart of one of stage 1's servers, which forgets all its locks.
type Restart struct {
	Server    string    `json:"server"`     // as configured
	StartedAt time.Time `json:"started_at"` // by the server's clock: what makes it the same restart
	NoticedAt time.Time `json:"noticed_at"` // by the store's
	NoticedBy string    `json:"noticed_by"` // the first replica that did
}

// Restarts is implemented by stores whose cluster has servers for stage 1: what
// one replica has noticed, all show.
type Restarts interface {
	// NoteRestart writes a restart down, unless it is known; NoticedAt is the
	// store's to say.
	NoteRestart(ctx context.Context, r Restart) error
	// Restarts returns those that were noticed from from on and before until, the
	// oldest first, at most MaxBatch of them.
	Restarts(ctx context.Context, from, until time.Time) ([]Restart, error)
}
