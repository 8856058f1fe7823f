package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The number of entries of each list of the overview. Waiting and running runs are fetched up to
// the limit of one query, because stores list the newest first and the oldest matter.
const (
	nextFirings    = 10
	recentRuns     = 15
	recentFailures = 10
	lastDay        = 24 * time.Hour
)

// Overview is the state of the cluster at one time: the page / and its JSON.
type Overview struct {
	Summary  string    `json:"summary"`
	Status   Status    `json:"status"`
	Now      time.Time `json:"now"` // by the store's clock
	ServedBy ServedBy  `json:"served_by"`
	// Memcached is this replica's view of the memcached servers, or nil without memcached.
	Memcached *MemcachedView `json:"memcached,omitempty"`
	// the state could not be queried; this is the last known one
	Stale bool   `json:"stale"`
	Error string `json:"error,omitempty"` // why it could not be queried

	Waiting []storage.Record `json:"waiting"` // oldest first
	// waited for, then held, then others; each by name
	Resources []locks.ResourceState `json:"resources"`
	Running   []storage.Record      `json:"running"` // oldest first
	// last runs that failed, were skipped, missed, lost or cancelled, newest first
	RecentFailures []storage.Record `json:"failed_or_skipped"`
	FailuresByJob  []JobFailures    `json:"failed_or_skipped_24h"` // by job, worst first
	// jobs whose last run failed, by error
	Failing []FailingGroup `json:"failing"`
	// ended runs of the last 24 hours by quarter of an hour
	Histogram Histogram `json:"histogram_24h"`
	// last runs that ended, newest first
	Last     []storage.Record `json:"last_runs"`
	Next     []Firing         `json:"next"` // by this replica's cron table
	Replicas []Replica        `json:"replicas"`
	// Conflicts has the expected conflicts of the next 24 hours; absent: they are not known yet.
	Conflicts *locks.ExpectedConflicts `json:"expected_conflicts_24h,omitempty"`
	// jobs whose definitions differ between replicas
	Drift  []storage.JobDrift `json:"drift,omitempty"`
	Pauses []storage.Pause    `json:"pauses,omitempty"` // active pauses, oldest first
	// actions that the viewer may perform on some target, and on everything
	Can    permission.Allowed `json:"-"`
	CanAll permission.Allowed `json:"-"`
	// PausedJobs is the number of jobs that Next leaves out.
	PausedJobs int `json:"-"`
	holders    locks.HeldLocks
	trees      []*locks.WaitTree          // nil: not built yet
	busy       []locks.ResourceState      // nil: not found yet
	failed     int                        // runs of FailuresByJob that started
	skipped    int                        // and those that did not
	usual      map[string]storage.Typical // of the jobs of the runs in RunningShown
}

// Firing is an upcoming firing.
type Firing struct {
	Job         string           `json:"job"`
	ScheduledAt time.Time        `json:"scheduled_at"`
	Resources   []locks.Resource `json:"resources"`
	// "wait", "skip", or absent if neither is expected, or if the overview has no expected
	// conflicts
	Expected string `json:"expected,omitempty"`
}

// EmptyOverview returns an overview that has empty lists instead of null.
func EmptyOverview() Overview {
	return Overview{
		Status:  Status{Problems: []Problem{}, Parts: []StatusPart{}},
		Waiting: []storage.Record{}, Resources: []locks.ResourceState{},
		Running:        []storage.Record{},
		RecentFailures: []storage.Record{}, FailuresByJob: []JobFailures{},
		Failing: []FailingGroup{}, Histogram: Histogram{Quarters: []Quarter{}},
		Last: []storage.Record{}, Next: []Firing{}, Replicas: []Replica{},
	}
}

// Overview queries the overview, without what only the replica that answers knows.
func (r *Reader) Overview(ctx context.Context, p Snapshot) (Overview, error) {
	o := EmptyOverview()
	o.Now, o.Replicas, o.Drift = p.Now, p.Replicas, p.Drift
	set, err := r.lock.Locks(ctx)
	if err != nil {
		return o, err
	}
	if err := locks.AddUsual(ctx, r.lock, o.Now, set.Locks); err != nil {
		return o, err
	}
	endCounts, err := r.recentEndCounts(ctx, o.Now)
	if err != nil {
		return o, err
	}
	o.FailuresByJob, o.failed, o.skipped = endCounts.byJob, endCounts.failed, endCounts.skipped
	if o.Histogram, err = r.histogram(ctx, o.Now); err != nil {
		return o, err
	}
	if err := r.overviewRuns(ctx, &o); err != nil {
		return o, err
	}
	var names []string
	for _, run := range o.Running[:min(len(o.Running), shownRunning)] {
		names = append(names, run.Job)
	}
	if o.usual, err = r.lock.Usual(ctx, o.Now, names); err != nil {
		return o, err
	}
	if o.Pauses, err = r.ActivePauses(ctx); err != nil {
		return o, err
	}
	o.Failing = failingGroups(p.Facts, o.Now)
	if o.Next, o.PausedJobs, err = r.next(ctx, o.Now, o.Pauses); err != nil {
		return o, err
	}
	if o.Conflicts, err = locks.FindExpectedConflicts(ctx, r.lock, o.Now); err != nil {
		return o, err
	}
	for i := range o.Next {
		o.Next[i].Expected = o.Conflicts.Of(o.Next[i].Job, o.Next[i].ScheduledAt)
	}
	if o.Resources, err = locks.ResourceStates(ctx, r.lock, o.Now, set.Locks,
		o.Waiting); err != nil {
		return o, err
	}
	o.holders = locks.NewHeldLocks(set)
	o.Summary = summary(&o)
	return o, nil
}

// next returns the next firings of jobs that are not paused, and the number of paused jobs.
func (r *Reader) next(ctx context.Context, now time.Time, pauses []storage.Pause) ([]Firing, int,
	error) {
	next := []Firing{}
	paused := make(map[string]bool)
	if len(pauses) > 0 {
		views, err := r.Store.ListJobs(ctx, pausedJobs(pauses))
		if err != nil {
			return next, 0, fmt.Errorf("paused jobs: %w", err)
		}
		for _, v := range views {
			paused[v.Name] = true
		}
	}
	for _, f := range r.firings(now, nextFirings+len(paused)) {
		if paused[f.Job] || !f.ScheduledAt.After(now) || len(next) == nextFirings ||
			slices.ContainsFunc(pauses, func(p storage.Pause) bool { return p.Covers(f.Job, "") }) {
			continue
		}
		next = append(next, Firing{Job: f.Job, ScheduledAt: f.ScheduledAt.UTC(),
			Resources: locks.ResourcesOf(f.Resources)})
	}
	return next, len(paused), nil
}

// pausedJobs selects the jobs that the pauses cover. If each covers one job, it selects them by
// their names, which takes less time.
func pausedJobs(pauses []storage.Pause) storage.JobFilter {
	f := storage.JobFilter{Limit: storage.MaxBatch}
	for _, p := range pauses {
		if p.Target.Kind != storage.TargetJob {
			return storage.JobFilter{Paused: new(true), Limit: storage.MaxBatch}
		}
		f.Names = append(f.Names, p.Target.Name)
	}
	return f
}

func (r *Reader) overviewRuns(ctx context.Context, o *Overview) (err error) {
	lists := []struct {
		runs   *[]storage.Record
		filter storage.RunFilter
	}{
		{&o.Waiting, storage.RunFilter{States: []jobs.State{jobs.Waiting},
			Later: new(false), Limit: storage.MaxBatch}},
		{&o.Running, storage.RunFilter{States: []jobs.State{jobs.Running},
			Limit: storage.MaxBatch}},
		{&o.Last, storage.RunFilter{States: records.FinalStates(), Limit: recentRuns}},
		{&o.RecentFailures, storage.RunFilter{States: records.UnsuccessfulStates(),
			Limit: recentFailures}},
	}
	for _, list := range lists {
		if *list.runs, err = r.Runs(ctx, list.filter); err != nil {
			return err
		}
	}
	slices.SortFunc(o.Waiting, records.OlderFirst)
	slices.SortFunc(o.Running, records.OlderFirst)
	return nil
}
