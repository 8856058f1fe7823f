package jobs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// Misfire is a misfire policy: what happens to firings that no replica started in time.
type Misfire string

// The misfire policies.
const (
	// the latest is run late, earlier ones are recorded as missed
	MisfireRunOnce Misfire = "run_once"
	MisfireSkip    Misfire = "skip"    // all are recorded as missed
	MisfireRunAll  Misfire = "run_all" // each is run late, at most MisfireRules.Limit of them
)

// MisfireRules has the limits of late runs, and the misfire policies for three causes. Job.Misfire
// is the policy for the fourth cause: no replica with the job was up. Zero fields have defaults.
type MisfireRules struct {
	NoWorker Misfire // replicas were up, but none could start it; "" is run_once
	Paused   Misfire // the job, its group or everything was paused; "" is skip
	// LockHeld applies when the wait policy for a held lock has ended; "" is skip. With run_once
	// the firing waits further, until the job's next scheduled time. Then the next firing replaces
	// it. With run_all it waits until Limit further scheduled times have come.
	LockHeld Misfire
	// Limit is the maximum number of late runs that one check for misfires adds with run_all, 1 to
	// 1,000; 0 is 100.
	Limit  int
	MaxAge time.Duration // older scheduled times are not run late; 0 is no limit
}

// GroupLimits limits how many runs of a group's jobs may run at the same time, 1 to 1,000; 0 is no
// limit. All jobs of a group should have the same limits. While they differ, for example during a
// deploy, each start obeys the limits of its own job.
type GroupLimits struct {
	PerCluster int
	PerReplica int
}

// The priorities.
const (
	DefaultPriority = 5
	MaxPriority     = 9
)

// Overlap is an overlap policy: what happens to a firing while an earlier run of its job runs.
type Overlap string

// The overlap policies.
const (
	OverlapSkip Overlap = "skip" // it is skipped at once
	// it waits for the end of the run; a further firing meanwhile is skipped
	OverlapQueue Overlap = "queue"
	OverlapAllow Overlap = "allow" // both run; only for jobs without exclusive resources
)

// Job is one entry of the cron table. It must not be changed after it was given to a Registry.
type Job struct {
	Name        string            // unique, 1 to 200 bytes
	Description string            // its purpose, in a sentence
	Schedule    schedule.Schedule // when it is due
	Handler     string            // the name of a registered handler
	// an object, decoded strictly into the handler's type; nil means {}
	Params json.RawMessage
	// Secrets are texts in Params that errors, logs and output of its runs must not show. They are
	// replaced by [redacted].
	Secrets []string
	// Overridable are the keys of Params that a trigger can override; nil: none.
	Overridable []string

	// Database is the name of the database in which its transactions are; "" is that of the store.
	Database  string
	Resources []locking.Request // what it locks, besides its own name
	Wait      retry.Policy      // for held resources; ends at the next scheduled time
	// Reserve is how long younger firings of other jobs cannot pass a waiting firing (see
	// locking.Reserve). 0 means locking.DefaultReserve; locking.NeverReserve disables it.
	Reserve   time.Duration
	Overlap   Overlap
	Misfire   Misfire      // for scheduled times at which no replica with the job was up
	MisfireBy MisfireRules // for the other causes
	// MisfireThreshold is how late a firing may start before it is a misfire; at least a second.
	MisfireThreshold time.Duration
	// Deadline is how long after its scheduled time, or its trigger, a firing may begin; 0 means no
	// limit. A firing that cannot begin by then is skipped. It must be longer than the jitter of
	// the schedule.
	Deadline    time.Duration
	Timeout     time.Duration // of one attempt; 0 means none
	Retry       retry.Policy  // of the handler, after an error; the zero Policy tries once
	Group       string        // shares limits and pauses; "" for none
	GroupLimits GroupLimits   // of the group: should be the same for all its jobs
	Priority    int           // 1 to 9, 0 means 5; if there are too few workers, 9 starts first
	Hooks       []Hook        // webhooks to notify of the ends of its runs
	Recover     bool          // run again, at most three times, if the replica of the run died
}

// Requests returns everything that the job locks: its resources, a slot of its group (if the group
// has a limit) and its own name (unless its runs may overlap).
func (j *Job) Requests() ([]locking.Request, error) {
	requests, err := j.DeclaredRequests()
	if err != nil {
		return nil, err
	}
	return locking.OfJob(j.Name, requests, j.Overlap == OverlapAllow)
}

// DeclaredRequests returns everything that the job locks, except its own name.
func (j *Job) DeclaredRequests() ([]locking.Request, error) {
	requests := append([]locking.Request(nil), j.Resources...)
	if j.GroupLimits.PerCluster == 0 {
		return requests, nil
	}
	group, err := locking.Group(j.Group)
	return append(requests, locking.Request{Resource: group, Mode: locking.Slotted,
		Slots: j.GroupLimits.PerCluster}), err
}

// ReserveTime returns how long younger firings of other jobs cannot pass a waiting firing; 0 means
// that they always can.
func (j *Job) ReserveTime() time.Duration { return locking.ReserveOf(j.Reserve) }

// EffectivePriority returns 1 to 9.
func (j *Job) EffectivePriority() int { return cmp.Or(j.Priority, DefaultPriority) }

// MisfirePolicy returns the policy for firings that did not start in time because of cause. For
// reasons.NoWorker, Paused and LockHeld it is the field of j.MisfireBy with this name. For every
// other cause it is j.Misfire. An empty field has its default.
func (j *Job) MisfirePolicy(cause Reason) Misfire {
	switch cause {
	case reasons.NoWorker:
		return cmp.Or(j.MisfireBy.NoWorker, MisfireRunOnce)
	case reasons.Paused:
		return cmp.Or(j.MisfireBy.Paused, MisfireSkip)
	case reasons.LockHeld:
		return cmp.Or(j.MisfireBy.LockHeld, MisfireSkip)
	default:
		return cmp.Or(j.Misfire, MisfireRunOnce)
	}
}

// LateLimit returns MisfireBy.Limit, or its default.
func (j *Job) LateLimit() int { return cmp.Or(j.MisfireBy.Limit, defaultLateRuns) }

// EffectiveMisfireRules returns the rules with their defaults filled in.
func (j *Job) EffectiveMisfireRules() MisfireRules {
	return MisfireRules{
		NoWorker: j.MisfirePolicy(reasons.NoWorker), Paused: j.MisfirePolicy(reasons.Paused),
		LockHeld: j.MisfirePolicy(reasons.LockHeld),
		Limit:    j.LateLimit(), MaxAge: j.MisfireBy.MaxAge,
	}
}

// The limits of run_all.
const (
	defaultLateRuns = 100 // if the job names none
	maxLateRuns     = 1000
)

// checkPolicies returns every mistake in the policies of the job.
func (j *Job) checkPolicies() error {
	var problems []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	policies := []Misfire{MisfireRunOnce, MisfireSkip, MisfireRunAll}
	for _, cause := range []Reason{reasons.Misfire, reasons.NoWorker, reasons.Paused,
		reasons.LockHeld} {
		must(slices.Contains(policies, j.MisfirePolicy(cause)), "misfire (%s): one of %v, found %q",
			cause, policies, j.MisfirePolicy(cause))
	}
	limit := j.LateLimit()
	must(j.MisfireThreshold >= time.Second, "misfire threshold: at least 1s, found %s",
		j.MisfireThreshold)
	must(limit >= 1 && limit <= maxLateRuns, "misfire limit: 1 to %d, found %d", maxLateRuns, limit)
	must(j.MisfireBy.MaxAge >= 0, "misfire age: 0s for no limit, or more, found %s",
		j.MisfireBy.MaxAge)
	must(j.Deadline >= 0, "deadline: 0s for none, or more, found %s", j.Deadline)
	must(j.Deadline <= 0 || j.Deadline > j.Schedule.MaxDelay(),
		"deadline: more than the jitter of %s, or 0s for none, found %s", j.Schedule.MaxDelay(),
		j.Deadline)
	must(j.EffectivePriority() >= 1 && j.EffectivePriority() <= MaxPriority,
		"priority: 1 to %d, found %d",
		MaxPriority, j.Priority)
	must(j.GroupLimits == GroupLimits{} || j.Group != "", "group limits: only with a group")
	must(j.GroupLimits.PerReplica >= 0, "slots of group %s: 0 for no limit, or more, found %d",
		j.Group, j.GroupLimits.PerReplica)
	return errors.Join(problems...)
}

// Check returns everything that the job locks, or what is wrong with the job. It
// does not check the handler and its params. Registry.Bind checks them.
func (j *Job) Check() ([]locking.Request, error) {
	if err := j.checkPolicies(); err != nil {
		return nil, err
	}
	requests, err := j.Requests()
	if err != nil {
		return nil, err
	}
	if j.Overlap == OverlapAllow && slices.ContainsFunc(requests, func(r locking.Request) bool {
		return r.Mode == locking.Exclusive
	}) {
		return nil, fmt.Errorf("overlap: %q is only for jobs without exclusive resources",
			OverlapAllow)
	}
	return requests, checkHooks(j.Hooks)
}

// Hook requests a delivery to a webhook when a run of the job ends in this state.
type Hook struct {
	Webhook string // its name in the configuration
	State   State  // a final one
}

func checkHooks(hooks []Hook) error {
	for _, h := range hooks {
		if h.Webhook == "" || !slices.Contains(States(), h.State) || !h.State.Final() {
			return fmt.Errorf("hook of webhook %q: expected a webhook's name and a final state, "+
				"found %q", h.Webhook, h.State)
		}
	}
	return nil
}
