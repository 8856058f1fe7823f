package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	nextScheduledTimes = 10
	shownOutcomes      = 100 // runs in the charts of durations and start delays
	recentOfJob        = 20
	outcomesSince      = 30 * 24 * time.Hour
)

// JobDetail is a job with its runs and statistics.
type JobDetail struct {
	Job
	ScheduledTimes []time.Time `json:"next_scheduled_times"` // by this replica's cron table
	// waiting and running runs, oldest first
	Active []storage.Record `json:"active"`
	Recent []storage.Record `json:"recent"` // last runs, newest first
	// outcomes of the last 30 days, most frequent first
	EndCounts []storage.EndCount `json:"outcomes_30_days"`
	// its active backfill, or else the last one
	Backfill *storage.Backfill `json:"last_backfill,omitempty"`
	// state that its runs save for the next run
	Saved json.RawMessage `json:"saved_state,omitempty"`
	// null if the replica that answers does not have the job
	Definition *JobDefinition   `json:"definition"`
	Calendar   *charts.Calendar `json:"-"` // nil: the job has no runs
	Graph      *charts.Graph    `json:"-"` // nil: it has no dependencies and no dependents
	// the job was just added, and no replica has registered it yet
	Pending bool `json:"pending,omitempty"`

	root  *locks.RootRun // of its trouble, on its page; or nil
	since time.Time      // earliest creation time of a run that EndCounts count
}

// Root returns the run that caused the skip of the last firing, or nil.
func (d *JobDetail) Root() *locks.RootRun { return d.root }

func (s jobPages) jobJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (JobDetail, error) {
		if err := param.Only(r); err != nil {
			return JobDetail{}, err
		}
		now, err := s.reader.Now(ctx)
		if err != nil {
			return JobDetail{}, err
		}
		d, err := s.reader.job(ctx, now, r.PathValue("name"))
		d.hide(r.Context())
		return d, err
	})
}

func (s jobPages) jobPage(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r, "refresh"); err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	name := r.PathValue("name")
	pages.Show(s.Site, w, r, pages.Page[JobDetail]{
		Template: "job.html", Section: "/jobs", Title: words.Cut(name, 100), Live: true,
		Topics: []storage.Topic{storage.TopicJobs, storage.TopicRuns},
		Load: func(ctx context.Context, p cluster.Snapshot) (JobDetail, error) {
			d, err := s.reader.job(ctx, p.Now, name)
			if trouble := d.Trouble(); err == nil && trouble != nil {
				d.root, err = locks.FindRootRun(ctx, s.reader.lock, p.Now, trouble.Run)
			}
			return d, err
		},
		Complete: func(d *JobDetail, _ *pages.Frame) { d.hide(r.Context()) },
	})
}

// hide removes what the sender of the request may not view.
func (d *JobDetail) hide(ctx context.Context) {
	if !pages.May(ctx, permission.ViewOutput) {
		d.Saved = nil
	}
	if d.Definition != nil && !pages.May(ctx, permission.EditJobs) {
		visible := *d.Definition // the cached page keeps its own
		visible.Params = nil
		d.Definition = &visible
	}
}

// job returns one job.
func (r *reader) job(ctx context.Context, now time.Time, name string) (d JobDetail, err error) {
	if !storable(name) {
		return d, fmt.Errorf("job %q: %w", words.Cut(name, 200), storage.ErrNotFound)
	}
	view, err := r.Store.Job(ctx, name)
	if errors.Is(err, storage.ErrNotFound) {
		spec, asked := r.spec(ctx, name)
		if d.Pending = spec != nil; d.Pending || asked != nil {
			added := storage.Definition{Name: name, Source: storage.FromStore}
			d.Job = newJob(&r.schedules, storage.JobView{Definition: added}, nil)
			d.ScheduledTimes, d.EndCounts = []time.Time{}, []storage.EndCount{}
			d.Active, d.Recent = []storage.Record{}, []storage.Record{}
			return d, asked
		}
	}
	if err != nil {
		return d, fmt.Errorf("job %q: %w", words.Cut(name, 200), err)
	}
	outcomes, err := r.Store.Outcomes(ctx, []storage.OutcomesOf{{Job: name}}, calendarRuns)
	if err != nil {
		return d, fmt.Errorf("outcomes: %w", err)
	}
	read := outcomes[name]
	d.Job = newJob(&r.schedules, view, read[:min(len(read), shownOutcomes)])
	if len(read) > 0 {
		if d.Calendar, err = r.days.calendar(ctx, view, read, calendarRuns, now); err != nil {
			return d, err
		}
	}
	if err = r.addDefinition(ctx, now, view, &d); err != nil {
		return d, err
	}
	d.ScheduledTimes = append([]time.Time{}, r.scheduledTimesOf(name, now, nextScheduledTimes)...)
	if len(d.ScheduledTimes) > 0 {
		d.NextScheduledAt = &d.ScheduledTimes[0]
	}
	if d.Active, err = r.Runs(ctx,
		storage.RunFilter{Job: name, States: []jobs.State{jobs.Waiting, jobs.Running},
			Limit: storage.MaxBatch}); err != nil {
		return d, err
	}
	slices.SortFunc(d.Active, records.OlderFirst)
	if d.Recent, err = r.Runs(ctx, storage.RunFilter{Job: name, Limit: recentOfJob}); err != nil {
		return d, err
	}
	d.since = now.Add(-outcomesSince).Truncate(time.Second) // the precision of links
	endCounts, err := r.Store.JobEndCounts(ctx, name, d.since)
	if err != nil {
		return d, fmt.Errorf("outcomes of job %q: %w", words.Cut(name, 200), err)
	}
	d.EndCounts = append([]storage.EndCount{}, endCounts...)
	cluster.SortEndCounts(d.EndCounts)
	// an active backfill is the youngest of its job
	last, err := r.Store.Backfills(ctx, storage.BackfillFilter{Job: name, Limit: 1})
	if err != nil {
		return d, fmt.Errorf("backfills of job %q: %w", words.Cut(name, 200), err)
	}
	if len(last) > 0 {
		d.Backfill = &last[0]
	}
	if r.progress == nil {
		return d, nil
	}
	if d.Saved, err = r.progress.Saved(ctx, name); err != nil {
		return d, fmt.Errorf("saved state of job %q: %w", words.Cut(name, 200), err)
	}
	return d, nil
}

// storable reports whether a store can look for the name.
func storable(name string) bool { return utf8.ValidString(name) && !strings.ContainsRune(name, 0) }

// Ended returns the number of runs in EndCounts.
func (d *JobDetail) Ended() (n int) {
	for _, t := range d.EndCounts {
		n += t.Runs
	}
	return n
}

// EndedPath returns the list of the runs that a count of EndCounts counts. Without a reason, it
// also has those with a reason.
func (d *JobDetail) EndedPath(c storage.EndCount) string {
	return param.RunsOfJobPath(c.Job, c.Reason, d.since, c.State)
}

// Paused reports whether the job itself is paused.
func (d *JobDetail) Paused() bool {
	return slices.ContainsFunc(d.Pauses, func(p storage.Pause) bool {
		return p.Target.Kind == storage.TargetJob
	})
}
