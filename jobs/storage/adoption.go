package storage

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Adoption selects the waiting runs that a session adopts: first late runs and runs of backfills,
// then other runs, each in the order of QueuePosition. A late run is a scheduled run, but no
// recovery, for which the Threshold of its job has passed. Runs of backfills have the priority
// BackfillPriority. A run that has made an attempt counts as one of the other runs.
//
// The late runs of a job start in the order of their scheduled times. So a late run is adopted only
// if no older scheduled run of its job waits, on any replica.
type Adoption struct {
	Jobs  []AdoptedJob
	Known []uuid.UUID // runs to leave out, because the caller tracks them
	Limit int         // maximum number of runs
	Late  int         // maximum number of late runs and runs of backfills among them
	// MinWait leaves out free runs with the reason no_worker that have waited for less, so that a
	// session with free workers can adopt them. It does not apply to waiting runs of the session.
	MinWait time.Duration
}

// AdoptedJob is a job whose waiting runs are to be adopted.
type AdoptedJob struct {
	Name      string
	Priority  int           // 1 to 9
	Threshold time.Duration // a run is late when this time has passed since its scheduled time
}

// Ageing is the wait that outweighs one level of priority.
const Ageing = time.Minute

// QueuePosition returns the position of a firing that waits for a worker. The firing with the
// earliest position gets a worker first. The position is the time since which the firing waits,
// moved by Ageing for each level of priority. A higher priority makes it earlier.
func QueuePosition(since time.Time, priority int) time.Time {
	return since.Add(-time.Duration(priority-jobs.DefaultPriority) * Ageing)
}
