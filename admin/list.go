package admin

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Locks returns all locks by resource, without those on job names, each with the state of its
// advisory lock. A nil advisory means that there are none. The command line calls Locks, so that it
// shows the same data as the API.
func Locks(ctx context.Context, store storage.History, advisory Advisory) ([]Lock, error) {
	set, err := newReader(Options{Store: store, Advisory: advisory}).lock.Locks(ctx)
	return set.Locks, err
}

// Jobs returns all jobs by name with their next scheduled time. The function scheduledTimes is as
// in Options and may be nil. The command line calls Jobs, so that it shows the same data as the
// API.
func Jobs(ctx context.Context, store storage.History,
	scheduledTimes func(job string, from time.Time, n int) []time.Time) ([]Job, error) {
	r := newReader(Options{Store: store, ScheduledTimes: scheduledTimes})
	now, err := r.Now(ctx)
	if err != nil {
		return nil, err
	}
	all := []Job{}
	filter := storage.JobFilter{Limit: storage.MaxBatch}
	for {
		list, err := r.jobs(ctx, now, filter)
		if err != nil {
			return nil, err
		}
		if all = append(all, list...); len(list) < filter.Limit {
			return all, nil
		}
		filter.After = list[len(list)-1].Name
	}
}
