package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

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
	defaultJobs = 100
	pageJobs    = 50
)

// Job is an entry of the cron table.
type Job struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"` // one sentence
	Group       string         `json:"group,omitempty"`
	Priority    int            `json:"priority,omitempty"` // 1 to 9; 9 is the highest
	Source      storage.Source `json:"source,omitempty"`
	Schedule    string         `json:"schedule"`
	Words       string         `json:"schedule_in_words"`
	Timezone    string         `json:"timezone"`
	Handler     string         `json:"handler"`
	Resources   []Resource     `json:"resources"`
	Recover     bool           `json:"recover,omitempty"`
	Version     int64          `json:"version"`
	// the job was added at run time and has been removed
	Removed bool `json:"removed,omitempty"`
	// since when no live replica has the job; null while one has it
	AbsentSince *time.Time      `json:"absent_since,omitempty"`
	Pauses      []storage.Pause `json:"pauses,omitempty"` // pauses that cover the job now
	// null if there is none, or if this replica does not know the job
	NextScheduledAt *time.Time        `json:"next_scheduled_at"`
	LastRun         *storage.Record   `json:"last_run"` // the last run that ended
	Outcomes        []storage.Outcome `json:"outcomes"` // newest first

	active *activeRun // in lists
}

// activeRun is a running or waiting run of a job.
type activeRun struct {
	storage.Outcome
	Since time.Time
}

// newActiveRun returns the newest running run of the outcomes, or else the newest waiting one, or
// nil. Runs that were triggered for a later time do not count.
func newActiveRun(outcomes []storage.Outcome, now time.Time) (active *activeRun) {
	for _, o := range outcomes {
		switch {
		case o.State == jobs.Running:
			return &activeRun{o, *cmp.Or(o.StartedAt, &o.ScheduledAt)}
		case o.State == jobs.Waiting && active == nil && !o.ScheduledAt.After(now):
			active = &activeRun{o, o.ScheduledAt}
		}
	}
	return active
}

// Active returns a running or waiting run of the job, or nil.
func (j Job) Active() *activeRun { return j.active }

// jobParams are the parameters of a list of jobs.
func jobParams() []string {
	return []string{"text", "group", "state", "source", "paused", "sort", "order", "limit", "skip",
		"after", "before"}
}

// jobCursors page by name.
func jobCursors() param.Cursors { return param.Cursors{Next: "after", Previous: "before"} }

func (s jobPages) jobsJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) ([]Job, error) {
		p, err := param.Read(r, jobParams()...)
		if err != nil {
			return nil, err
		}
		filter, err := readJobQuery(p, defaultJobs)
		if err != nil {
			return nil, err
		}
		now, err := s.reader.Now(ctx)
		if err != nil {
			return nil, err
		}
		if filter.inMemory() {
			page, err := s.reader.lists.selectJobs(ctx, now, filter)
			if err == nil {
				param.SetLinks(w, page.pager(p, r.URL.EscapedPath(), filter))
			}
			return append([]Job{}, page.Jobs...), err
		}
		list, err := s.reader.lists.jobs(ctx, now, filter.JobFilter)
		if err == nil && len(list) > 0 {
			full := len(list) == filter.Limit // there may be more
			back := filter.Before != "" && filter.After == ""
			param.SetLinks(w, p.Pager(r.URL.EscapedPath(), jobCursors(), list[0].Name,
				list[len(list)-1].Name, back || full, filter.After != "" || back && full))
		}
		return list, err
	})
}

// jobsView is the page of jobs.
type jobsView struct {
	Sections []jobSection
	Groups   []storage.Group
	Total    int // jobs that the filter selects, as the chips count them
	Pager    param.Pager
	Filter   jobFields
	Chips    []jobLink
	Bulk     permission.Allowed // actions on selected jobs
	// the query of the filter; "": none is set
	Matching string
	Unknown  int // jobs whose usual durations are not known yet

	query   jobQuery
	columns map[jobOrder]jobColumn
}

// Order returns the fields of the order of the list.
func (v *jobsView) Order() (fields []orderField) {
	if v.query.Order != "" {
		fields = append(fields, orderField{"sort", string(v.query.Order)})
	}
	if v.query.Descending {
		fields = append(fields, orderField{"order", "desc"})
	}
	return fields
}

// orderField is a field of the form that keeps the order of the list.
type orderField struct{ Name, Value string }

// jobFields are the submitted fields of the filter.
type jobFields struct{ Text, Group, State, Source, Paused string }

// Any reports whether a filter is set.
func (f jobFields) Any() bool { return f != jobFields{} }

func (s jobPages) jobsPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(jobParams(), "refresh")...)
	var q jobQuery
	if err == nil {
		q, err = readJobQuery(p, pageJobs)
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[jobsView]{
		Template: "jobs.html", Section: "/jobs", Title: "Jobs", Live: true,
		Fields: true,
		Topics: []storage.Topic{storage.TopicJobs, storage.TopicRuns},
		Load: func(ctx context.Context, snap cluster.Snapshot) (v jobsView, err error) {
			v.Filter = jobFields{q.Text, q.Group, cmp.Or(q.Condition, string(q.State)),
				string(q.Source), p.Get("paused")}
			v.query, v.columns = q, jobColumns(p, q)
			lists := s.reader.lists
			index, err := lists.jobIndex(ctx, snap.Now)
			if err != nil {
				return v, err
			}
			failing, err := lists.failing(ctx, snap.Now, jobFailing)
			if err != nil {
				return v, err
			}
			lastFailed, err := lists.failing(ctx, snap.Now, jobLastFailed)
			if err != nil {
				return v, err
			}
			v.Chips, v.Total = stateChips(p, v.Filter, index.counts(q, failing, lastFailed))
			if v.Filter.Any() {
				v.Matching = matchingQuery(p)
			}
			if v.Groups, err = s.reader.Groups(ctx, snap.Now); err != nil {
				return v, err
			}
			return v, v.list(ctx, lists, p, snap.Now, index)
		},
		Complete: func(v *jobsView, f *pages.Frame) {
			v.Bulk = s.bulkAllowed(r.Context(), f)
			v.Groups = offeredGroups(r.Context(), v.Groups, q.Group)
		},
	})
}

// list adds a page of the jobs.
func (v *jobsView) list(ctx context.Context, lists *jobLister, p param.Set, now time.Time,
	index *jobIndex) (err error) {
	const path = "/jobs"
	var at jobPosition
	switch q := v.query; {
	case q.inMemory():
		page, err := lists.selectJobs(ctx, now, q)
		if err != nil || len(page.Jobs) == 0 {
			return err
		}
		v.Unknown, v.Pager = page.Unknown, page.pager(p, path, q)
		if v.Sections = jobSections(page.Jobs, true, now); q.Order != "" {
			v.Sections = []jobSection{{Jobs: page.Jobs, Sorted: true}}
		}
		return nil
	case v.Filter.Any() || len(index.groups) == 0:
		v.Sections, at, err = lists.listedSections(ctx, now, q.JobFilter, v.Filter.Any())
	default:
		v.Sections, at, err = lists.groupedSections(ctx, now, q.JobFilter, index)
	}
	if len(v.Sections) > 0 {
		v.Pager = p.Pager(path, jobCursors(), at.first, at.last, at.next, at.previous)
	}
	return err
}

// pager links the pages around this one.
func (page *selectedJobs) pager(p param.Set, path string, q jobQuery) param.Pager {
	switch {
	case q.Order != "":
		return p.SkipPager(path, q.Skip, q.Limit, page.Total)
	case len(page.Jobs) == 0:
		return param.Pager{}
	}
	at := page.at
	return p.Pager(path, jobCursors(), at.first, at.last, at.next, at.previous)
}

// jobPosition is the first and the last key of a page of jobs, and whether there are more pages.
type jobPosition struct {
	first, last    string
	next, previous bool
}

// listedSections returns a page of the jobs by name. All families are open if open is set.
func (r *jobLister) listedSections(ctx context.Context, now time.Time, f storage.JobFilter,
	open bool) ([]jobSection, jobPosition, error) {
	limit := f.Limit
	f.Limit = min(limit+1, storage.MaxBatch) // one more shows whether there is another page
	list, err := r.jobs(ctx, now, f)
	if err != nil || len(list) == 0 {
		return nil, jobPosition{}, err
	}
	var at jobPosition
	list, at.next, at.previous = param.Trim(list, limit, f.After != "", f.Before != "")
	at.first, at.last = list[0].Name, list[len(list)-1].Name
	return jobSections(list, open, now), at, nil
}

// readJobFilter parses the parameters of a list of jobs.
func readJobFilter(p param.Set, limit int) (f storage.JobFilter, err error) {
	for name, field := range map[string]*string{"text": &f.Text, "group": &f.Group,
		"after": &f.After, "before": &f.Before} {
		if *field, err = p.Text(name); err != nil {
			return f, err
		}
	}
	if f.State, err = param.OneOf(p, "state", jobs.States()); err != nil {
		return f, err
	}
	if len(p.Values["state"]) > 1 {
		return f, param.Errorf("state is given %d times, expected once",
			len(p.Values["state"]))
	}
	sources := []storage.Source{storage.FromConfig, storage.FromStore}
	if f.Source, err = param.OneOf(p, "source", sources); err != nil {
		return f, err
	}
	paused, err := param.OneOf(p, "paused", []string{"yes", "no"})
	if err != nil {
		return f, err
	}
	if paused != "" {
		yes := paused == "yes"
		f.Paused = &yes
	}
	f.Limit, err = p.Limit(limit)
	return f, err
}

// jobs returns jobs by name, with the next scheduled time from this replica's cron table.
func (r *jobLister) jobs(ctx context.Context, now time.Time, f storage.JobFilter) ([]Job, error) {
	views, err := r.Store.ListJobs(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return r.completeJobs(ctx, now, views)
}

// completeJobs adds the last outcomes and the next scheduled times, and sorts the jobs by name.
func (r *jobLister) completeJobs(ctx context.Context, now time.Time,
	views []storage.JobView) ([]Job, error) {
	names := make([]string, len(views))
	for i, v := range views {
		names[i] = v.Name
	}
	outcomes, err := r.Outcomes.Last(ctx, now, names, charts.StripOutcomes)
	if err != nil {
		return nil, err
	}
	list := make([]Job, 0, len(views))
	for _, v := range views {
		job := newJob(&r.schedules, v, outcomes[v.Name])
		if scheduledTimes := r.scheduledTimesOf(v.Name, now, 1); len(scheduledTimes) > 0 {
			job.NextScheduledAt = &scheduledTimes[0]
		}
		job.active = newActiveRun(job.Outcomes, now)
		list = append(list, job)
	}
	slices.SortStableFunc(list, func(a, b Job) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

func newJob(schedules *scheduleWords, v storage.JobView, outcomes []storage.Outcome) Job {
	job := Job{
		Name: v.Name, Description: v.Description, Group: v.Group, Priority: v.Priority,
		Source:   v.Source,
		Schedule: v.Schedule, Words: schedules.describe(v.Schedule, v.Zone), Timezone: v.Zone,
		Handler:   v.Handler,
		Resources: locks.ResourcesOf(v.Resources), Recover: v.Recover, Version: v.Version,
		Removed: v.Removed, AbsentSince: v.AbsentSince, Pauses: v.Pauses,
		Outcomes: []storage.Outcome{},
	}
	for _, o := range outcomes {
		o.ScheduledAt, o.StartedAt, o.FinishedAt = o.ScheduledAt.UTC(), records.InUTC(o.StartedAt),
			records.InUTC(o.FinishedAt)
		job.Outcomes = append(job.Outcomes, o)
	}
	if v.Last != nil {
		last := records.Plain(*v.Last)
		last.Params = nil
		job.LastRun = &last
	}
	return job
}

// scheduledTimesOf returns at most n scheduled times of a job after from, by this replica's cron
// table.
func (r *reader) scheduledTimesOf(job string, from time.Time, n int) []time.Time {
	if r.scheduledTimes == nil {
		return nil
	}
	var scheduledTimes []time.Time
	for _, scheduledAt := range r.scheduledTimes(job, from, n) {
		scheduledTimes = append(scheduledTimes, scheduledAt.UTC())
	}
	return scheduledTimes[:min(n, len(scheduledTimes))]
}

// Usually returns the usual duration of the listed outcomes in words, or "" if none has ended.
func (j Job) Usually() string {
	usual := storage.TypicalOutcomes(map[string][]storage.Outcome{j.Name: j.Outcomes})[j.Name]
	if usual.Runs == 0 {
		return ""
	}
	return words.Took(usual.Median)
}

// Covered names the targets of the pauses that cover the job.
func (j Job) Covered() string {
	var targets []string
	for _, p := range j.Pauses {
		targets = append(targets, p.Target.String())
	}
	return strings.Join(targets, ", ")
}
