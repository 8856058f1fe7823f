package locks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// A lock is held for an unusual time if that is longer than most runs of the job take, and more
// than unusualFactor times as long as half of them.
const (
	unusualFactor = 2
	unusualRuns   = 5 // with fewer ended runs the usual duration is not known
)

// AddUsual sets the usual durations of the jobs that hold the locks. With very many holders it
// queries only some that are not cached.
func (r *Reader) AddUsual(ctx context.Context, now time.Time, locks []Lock) error {
	var open []string
	for _, lock := range locks {
		job := lock.Holder.Job
		_, known := r.durations.get(job, now)
		if job != "" && !known && len(open) < durationsBatch {
			open = append(open, job)
		}
	}
	slices.Sort(open)
	if open = slices.Compact(open); len(open) > 0 {
		found, err := r.Store.Typical(ctx, open)
		if err != nil {
			return fmt.Errorf("query durations of runs: %w", err)
		}
		r.durations.put(open, found, now)
	}
	for i := range locks {
		locks[i].typical, _ = r.durations.get(locks[i].Holder.Job, now)
	}
	return nil
}

// Usual returns the usual duration of the holder's job, if the lock has been held for much longer.
// Otherwise it returns "".
func (l Lock) Usual(now time.Time) string {
	held := now.Sub(l.Since)
	if l.typical.Runs < unusualRuns || held <= l.typical.Long ||
		held <= unusualFactor*l.typical.Median {
		return ""
	}
	return words.Took(l.typical.Median)
}
