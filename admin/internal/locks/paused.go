package locks

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// paused tells which jobs start no runs because of pauses.
type paused struct {
	all  *storage.Pause // covers every job
	jobs map[string]storage.Pause
}

// paused returns the jobs that are paused now. It queries the jobs of paused groups.
func (r *Reader) paused(ctx context.Context) (found paused, err error) {
	if r.Pauses == nil {
		return found, nil
	}
	pauses, err := r.Pauses(ctx)
	if err != nil {
		return found, fmt.Errorf("pauses: %w", err)
	}
	found.jobs = make(map[string]storage.Pause)
	for _, p := range pauses {
		switch p.Target.Kind {
		case storage.TargetAll:
			found.all = &p
		case storage.TargetGroup:
			if err := r.addGroup(ctx, found.jobs, p); err != nil {
				return found, err
			}
		default:
			found.jobs[p.Target.Name] = p
		}
	}
	return found, nil
}

// addGroup adds the jobs of a paused group.
func (r *Reader) addGroup(ctx context.Context, jobs map[string]storage.Pause,
	p storage.Pause) error {
	filter := storage.JobFilter{Group: p.Target.Name, Limit: storage.MaxBatch}
	for {
		views, err := r.Store.ListJobs(ctx, filter)
		if err != nil {
			return fmt.Errorf("jobs of the paused group %q: %w", p.Target.Name, err)
		}
		for _, v := range views {
			jobs[v.Name] = p
		}
		if len(views) < filter.Limit {
			return nil
		}
		filter.After = views[len(views)-1].Name
	}
}

// pause returns the pause of a job, or nil.
func (p paused) pause(job string) *storage.Pause {
	if one, ok := p.jobs[job]; ok {
		return &one
	}
	return p.all
}

// mark notes which contenders are paused, and returns their number.
func (p paused) mark(contenders []*contender) (n int) {
	for _, one := range contenders {
		if one.pause = p.pause(one.job); one.pause != nil {
			n++
		}
	}
	return n
}
