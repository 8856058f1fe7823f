package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// localTable is the cron table of the configuration with the added jobs, for next scheduled times,
// the ends of waits and explanations.
type localTable struct {
	config *configs.Config
	specs  app.SpecParser
	store  app.Storage

	jobs      map[string]jobs.Job // nil before read
	schedules map[string]schedule.Schedule
}

// read reads the added jobs. It leaves out those that this configuration cannot parse.
func (t *localTable) read(ctx context.Context) error {
	now, err := t.store.ControlState(ctx, uuid.Nil, 0)
	if err != nil {
		return fmt.Errorf("read added jobs: %w", err)
	}
	t.jobs, t.schedules = map[string]jobs.Job{}, map[string]schedule.Schedule{}
	for _, s := range now.Specs {
		if job, err := t.specs.Build(s.Text); err == nil {
			t.jobs[s.Job], t.schedules[s.Job] = job, job.Schedule
		}
	}
	for _, job := range app.Jobs(t.config) {
		t.jobs[job.Name], t.schedules[job.Name] = job, job.Schedule
	}
	return nil
}

// scheduledTimes is admin.Options.ScheduledTimes.
func (t *localTable) scheduledTimes(job string, from time.Time, n int) []time.Time {
	return schedule.ScheduledTimes(t.schedules, job, from, n)
}

// waitEnd is admin.Options.WaitEnd.
func (t *localTable) waitEnd(run storage.Record) (storage.WaitEnd, bool) {
	job, known := t.jobs[run.Job]
	if !known {
		return storage.WaitEnd{}, false
	}
	return engine.WaitEnd(job, run)
}

// explain is admin.Options.Explain.
func (t *localTable) explain(ctx context.Context, job, at string) (explain.Explanation, error) {
	if err := t.read(ctx); err != nil {
		return explain.Explanation{}, err
	}
	return explain.New(explain.Options{Store: t.store,
		Table:  explain.TableOf(slices.Collect(maps.Values(t.jobs))),
		Pauses: t.store.Pauses, Keep: t.config.History.Keep}).Explain(ctx, job, at)
}

// upcoming is admin.Options.Upcoming.
func (t *localTable) upcoming(from time.Time, n int) []admin.ScheduledFiring {
	var firings []admin.ScheduledFiring
	for name, job := range t.jobs {
		requests, err := job.Requests()
		if err != nil {
			continue // no replica fires it
		}
		for _, at := range t.scheduledTimes(name, from, 1) {
			firings = append(firings, admin.ScheduledFiring{Job: name, ScheduledAt: at,
				Resources: requests})
		}
	}
	slices.SortFunc(firings, func(a, b admin.ScheduledFiring) int {
		return cmp.Or(a.ScheduledAt.Compare(b.ScheduledAt), cmp.Compare(a.Job, b.Job))
	})
	return firings[:min(n, len(firings))]
}
