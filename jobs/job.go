package jobs

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// Misfire says what becomes of scheduled times that no replica started in time.
type Misfire string

// The misfire policies.
const (
	// the latest is run late, those before it are recorded as missed
	MisfireRunOnce Misfire = "run_once"
	MisfireSkip    Misfire = "skip"    // all are recorded as missed
	MisfireRunAll  Misfire = "run_all" // each is run late, at most MisfireRules.Limit of them
)

// MisfireRules is what becomes of scheduled times by what kept them, beside that no
// replica was up, and how much is run late at all. Zero fields have defaults.
type MisfireRules struct {
	NoWorker Misfire // replicas were up, but had no worker for it; "" is run_once
	Paused   Misfire // its job, its group or everything was paused; "" is skip
	// LockHeld is for firings whose wait for a lock has run out; "" is skip. With
	// run_once it waits on until the job's next scheduled time takes its place, with run_all
	// until as many scheduled times have come as Limit says.
	LockHeld Misfire
	Limit    int           // of run_all: late runs that one check leaves, 1 to 1,000; 0 is 100
	MaxAge   time.Duration // scheduled times that are older are not run late; 0 is without limit
}

// GroupLimits says how many runs of a group's jobs may go on at the same time,
// 1 to 1,000; 0 is without limit. Where replicas or jobs disagree, each request
// counts by its own number.
type GroupLimits struct {
	PerCluster int
	PerReplica int
}

// The priorities.
const (
	DefaultPriority = 5
	MaxPriority     = 9
)

// Overlap says what becomes of a firing whose job still runs.
type Overlap string

// The overlap policies.
const (
	OverlapSkip  Overlap = "skip"  // it is skipped at once
	OverlapQueue Overlap = "queue" // it waits for the run's end; a further one meanwhile is skipped
	OverlapAllow Overlap = "allow" // both run; only for jobs without exclusive resources
)

// Job is one entry of the cron table. A Job is not changed after it was given
// to a Registry.
type Job struct {
	Name        string            // unique, 1 to 200 bytes
	Description string            // what it is for, in a sentence; for people only
	Schedule    schedule.Schedule // when it is due
	Handler     string            // the name of a registered handler
	// an object, decoded strictly into the handler's type; nil means {}
	Params json.RawMessage

	Resources []locking.Request // what it locks, besides its own name
	Wait      retry.Policy      // for held resources; at most until the next scheduled time
	// Reserve is how long a firing that waits reserves its place before younger ones
	// of other jobs (see locking.Reserve): 0 means locking.DefaultReserve, and
	// locking.NeverReserve never.
	Reserve   time.Duration
	Overlap   Overlap
	Misfire   Misfire      // of scheduled times at which no replica was up
	MisfireBy MisfireRules // of others
	// MisfireThreshold is how late a firing may be started before it counts
	// as a misfire; at least a second.
	MisfireThreshold time.Duration
	// Deadline is how long after its scheduled time, or its trigger, a firing may begin; 0
	// means at any time. What could not is skipped.
	Deadline    time.Duration
	Timeout     time.Duration // of one attempt; 0 means none
	Retry       retry.Policy  // of the handler, after an error; the zero Policy tries once
	Group       string        // whose limits and pauses it shares; "" for none
	GroupLimits GroupLimits   // of the group: the same for all its jobs
	Priority    int           // 1 to 9, 0 means 5: where workers are short, 9 goes first
	Hooks       []Hook        // which webhooks are told how its runs end
	Recover     bool          // run again when the replica that ran it died; three times at most
}

// requests returns everything the job locks: its resources, a slot of its
// group where that has a limit and, unless it may overlap with itself, its own
// name.
func (j *Job) requests() ([]locking.Request, error) {
	requests, err := j.shownRequests()
	if err != nil {
		return nil, err
	}
	return Definition{Name: j.Name, Resources: requests,
		MayOverlap: j.Overlap == OverlapAllow}.Requests()
}

// shownRequests returns what the job locks but for its own name.
func (j *Job) shownRequests() ([]locking.Request, error) {
	requests := append([]locking.Request(nil), j.Resources...)
	if j.GroupLimits.PerCluster == 0 {
		return requests, nil
	}
	group, err := locking.Group(j.Group)
	return append(requests, locking.Request{Resource: group, Mode: locking.Slotted,
		Slots: j.GroupLimits.PerCluster}), err
}

// reserve returns how long a firing reserves its place; 0 means that it does not.
func (j *Job) reserve() time.Duration { return locking.ReserveOf(j.Reserve) }

// priority returns 1 to 9.
func (j *Job) priority() int { return cmp.Or(j.Priority, DefaultPriority) }

// misfire returns the policy for scheduled times that were kept by the cause.
func (j *Job) misfire(cause Reason) Misfire {
	switch cause {
	case ReasonNoWorker:
		return cmp.Or(j.MisfireBy.NoWorker, MisfireRunOnce)
	case ReasonPaused:
		return cmp.Or(j.MisfireBy.Paused, MisfireSkip)
	case ReasonLockHeld:
		return cmp.Or(j.MisfireBy.LockHeld, MisfireSkip)
	default:
		return cmp.Or(j.Misfire, MisfireRunOnce)
	}
}

// lateLimit is how many late runs run_all leaves at most.
func (j *Job) lateLimit() int { return cmp.Or(j.MisfireBy.Limit, defaultLateRuns) }

// misfireRules returns the rules with their defaults filled in.
func (j *Job) misfireRules() MisfireRules {
	return MisfireRules{
		NoWorker: j.misfire(ReasonNoWorker), Paused: j.misfire(ReasonPaused),
		LockHeld: j.misfire(ReasonLockHeld),
		Limit:    j.lateLimit(), MaxAge: j.MisfireBy.MaxAge,
	}
}
