package admin

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Locks returns every lock by resource, those on job names left out, with what
// stage1 says of each; a nil stage1 is off. It is what the API serves, for a
// command line.
func Locks(ctx context.Context, store jobs.History, advisory Advisory) ([]Lock, error) {
	set, err := newReader(Options{Store: store, Advisory: advisory}).locks(ctx)
	return set.locks, err
}

// Jobs returns every job by name, with its next scheduled time by scheduled times, which is as in
// Options and may be nil. It is what the API serves, for a command line.
func Jobs(ctx context.Context, store jobs.History,
	scheduledTimes func(job string, from time.Time, n int) []time.Time) ([]Job, error) {
	r := newReader(Options{Store: store, ScheduledTimes: scheduledTimes})
	now, err := r.now(ctx)
	if err != nil {
		return nil, err
	}
	all := []Job{}
	filter := jobs.JobFilter{Limit: jobs.MaxBatch}
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
