package cluster

import (
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

// ScheduledFiring is the next firing of a job, by the replica's cron table.
type ScheduledFiring struct {
	Job         string
	ScheduledAt time.Time
	Start       time.Time         // after ScheduledAt by the job's jitter; zero: at ScheduledAt
	Resources   []locking.Request // may include the job's own name
}

// firings returns the next firing of each job, at most n.
func (r *Reader) firings(from time.Time, n int) []ScheduledFiring {
	if r.upcoming == nil || n <= 0 {
		return nil
	}
	scheduledTimes := r.upcoming(from, n)
	return scheduledTimes[:min(n, len(scheduledTimes))]
}
