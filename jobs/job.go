package jobs

import (
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// Misfire says what becomes of dues that no replica started in time.
type Misfire string

// The misfire policies.
const (
	MisfireRunOnce Misfire = "run_once" // the latest is run late, those before it are recorded as missed
	MisfireSkip    Misfire = "skip"     // all are recorded as missed
	MisfireRunAll  Misfire = "run_all"  // each is run late, at most 100 of them
)

// Overlap says what becomes of a firing whose job still runs.
type Overlap string

// The overlap policies.
const (
	OverlapSkip  Overlap = "skip"  // it is skipped at once
	OverlapQueue Overlap = "queue" // it waits, at most until the next due
	OverlapAllow Overlap = "allow" // both run; only for jobs without exclusive resources
)

// Job is one entry of the cron table. A Job is not changed after it was given
// to a Registry.
type Job struct {
	Name        string            // unique, 1 to 200 bytes
	Description string            // what it is for, in a sentence; for people only
	Schedule    schedule.Schedule // when it is due
	Handler     string            // the name of a registered handler
	Params      json.RawMessage   // an object, decoded strictly into the handler's type; nil means {}

	Resources []locking.Request // what it locks, besides its own name
	Wait      retry.Policy      // for held resources; at most until the next due
	Overlap   Overlap
	Misfire   Misfire
	// MisfireThreshold is how late a firing may be started before it counts
	// as a misfire; at least a second.
	MisfireThreshold time.Duration
	Timeout          time.Duration // of one attempt; 0 means none
	Retry            retry.Policy  // of the handler, after an error; the zero Policy tries once
	Group            string        // whose limits and pauses it shares; "" for none
	Priority         int           // 1 to 9, 0 means 5: where workers are short, 9 goes first
	Hooks            []Hook        // which webhooks are told how its runs end
	Recover          bool          // run again when the replica that ran it died; three times at most
}

// requests returns everything the job locks: its resources and, unless it may
// overlap with itself, its own name.
func (j *Job) requests() ([]locking.Request, error) {
	requests := append([]locking.Request(nil), j.Resources...)
	if j.Overlap != OverlapAllow {
		own, err := locking.Job(j.Name)
		if err != nil {
			return nil, err
		}
		requests = append(requests, locking.Request{Resource: own, Mode: locking.Exclusive})
	}
	return locking.Normalize(requests)
}
