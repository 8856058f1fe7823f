package storage

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Adoption selects the waiting runs that a session adopts. Late runs come first, because they have
// a limit of their own. Late runs and other runs are each sorted by QueuePosition. Runs of
// backfills count as late runs, and have BackfillPriority.
type Adoption struct {
	Jobs  []AdoptedJob // the jobs
	Known []uuid.UUID  // runs to leave out, because the caller tracks them
	Limit int          // the maximum number of runs
	// Late is the maximum number of late runs among them, so that an outage is not caught up at
	// once.
	Late int
}

// AdoptedJob is a job whose waiting runs are to be adopted.
type AdoptedJob struct {
	Name     string
	Priority int // 1 to 9
	// A run counts as late when Threshold has passed since its scheduled time.
	Threshold time.Duration
}

// Ageing is the wait that outweighs one level of priority. So firings of a low priority do not
// starve.
const Ageing = time.Minute

// QueuePosition returns the time by which firings are sorted if workers are short, the earliest
// first. It is the time since which the firing waits, moved by Ageing for each level of priority: a
// higher priority makes it earlier.
func QueuePosition(since time.Time, priority int) time.Time {
	return since.Add(-time.Duration(priority-jobs.DefaultPriority) * Ageing)
}
