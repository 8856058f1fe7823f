package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Job is one entry of the cron table.
type Job struct {
	Name        string       `json:"name"`
	Description string       `json:"description,omitempty"` // what it is for, in a sentence
	Schedule    string       `json:"schedule"`
	Timezone    string       `json:"timezone"`
	Handler     string       `json:"handler"`
	Resources   []Resource   `json:"resources"`
	Version     int64        `json:"version"`
	NextDue     *time.Time   `json:"next_due"` // null where it is never due, or unknown to this replica
	LastRun     *jobs.Record `json:"last_run"` // the last that ended
}

// Resource is what a job locks while it runs.
type Resource struct {
	Resource string       `json:"resource"`
	Mode     locking.Mode `json:"mode"`
	Slots    int          `json:"slots,omitempty"`
}

func (s *Server) jobsJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) ([]Job, error) {
		if err := onlyParams(r); err != nil {
			return nil, err
		}
		return s.reader.jobs(ctx)
	})
}

func (s *Server) jobJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) (Job, error) {
		if err := onlyParams(r); err != nil {
			return Job{}, err
		}
		all, err := s.reader.jobs(ctx)
		if err != nil {
			return Job{}, err
		}
		name := r.PathValue("name")
		for _, job := range all {
			if job.Name == name {
				return job, nil
			}
		}
		return Job{}, fmt.Errorf("job %q: %w", cut(name, 200), jobs.ErrNotFound)
	})
}

// jobs returns every job by name, with its next due by this replica's table.
func (r *reader) jobs(ctx context.Context) ([]Job, error) {
	now, err := r.now(ctx)
	if err != nil {
		return nil, err
	}
	views, err := r.jobViews(ctx)
	if err != nil {
		return nil, err
	}
	next := make(map[string]time.Time)
	for _, due := range r.firings(now, len(views)) {
		if _, known := next[due.Job]; !known {
			next[due.Job] = due.Due.UTC()
		}
	}
	all := make([]Job, 0, len(views))
	for _, v := range views {
		job := Job{
			Name: v.Name, Description: v.Description, Schedule: v.Schedule, Timezone: v.Zone, Handler: v.Handler,
			Resources: resourcesOf(v.Resources), Version: v.Version,
		}
		if due, ok := next[v.Name]; ok {
			job.NextDue = &due
		}
		if v.Last != nil {
			last := plainRecord(*v.Last)
			job.LastRun = &last
		}
		all = append(all, job)
	}
	return all, nil
}

func (r *reader) jobViews(ctx context.Context) ([]jobs.JobView, error) {
	views, err := r.store.Jobs(ctx)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	views = slices.Clone(views)
	slices.SortStableFunc(views, func(a, b jobs.JobView) int { return cmp.Compare(a.Name, b.Name) })
	return views, nil
}

func (r *reader) now(ctx context.Context) (time.Time, error) {
	now, err := r.store.Now(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("store's clock: %w", err)
	}
	return now.UTC(), nil
}

// resourcesOf lists what requests lock, the job's own name left out.
func resourcesOf(requests []locking.Request) []Resource {
	resources := make([]Resource, 0, len(requests))
	for _, request := range requests {
		if request.Resource.Kind() != locking.KindJob {
			resources = append(resources, Resource{request.Resource.String(), request.Mode, request.Slots})
		}
	}
	return resources
}
