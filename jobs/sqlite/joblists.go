package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	selectJobs = `
SELECT j.name, d.hash, d.schedule, d.zone, d.handler, d.resources, d.recover, d.description,
    d.job_group, d.priority, d.source,
    d.version, j.version < 0, j.updated_at, CASE WHEN j.back_at IS NULL THEN j.left_at END
FROM holdfast_jobs j CROSS JOIN holdfast_definitions d ON d.job = j.name
    AND d.version = abs(j.version)`

	// jobStates reads the last run of each job.
	jobStates = `
SELECT j.name, d.description, d.job_group, d.source, %s,
    j.name IN (SELECT job FROM holdfast_runs WHERE state = 'waiting'
        AND NOT (key <> '' AND wait_since > %s)),
    j.name IN (SELECT job FROM holdfast_runs WHERE state = 'running'),
    coalesce((SELECT r.state FROM holdfast_runs r WHERE r.job = j.name
        AND r.finished_at IS NOT NULL ORDER BY r.created_at DESC, r.id DESC LIMIT 1), ''),
    d.schedule, d.zone, d.handler, j.checked_until
FROM holdfast_jobs j CROSS JOIN holdfast_definitions d ON d.job = j.name
    AND d.version = abs(j.version)
ORDER BY j.name`

	lastRunsOf = `
SELECT ` + runColumns + ` FROM json_each(?1) n CROSS JOIN holdfast_runs r ON r.id = (
    SELECT id FROM holdfast_runs WHERE job = n.value AND finished_at IS NOT NULL
        ORDER BY created_at DESC, id DESC LIMIT 1)`

	listGroups = `
SELECT d.job_group, count(*) FROM holdfast_jobs j CROSS
    JOIN holdfast_definitions d ON d.job = j.name AND d.version = j.version
WHERE d.job_group <> '' GROUP BY d.job_group ORDER BY d.job_group`

	listResources = `
SELECT DISTINCT e.value ->> 'resource'
FROM holdfast_jobs j CROSS JOIN holdfast_definitions d ON d.job = j.name AND d.version = j.version
    CROSS JOIN json_each(d.resources) e
WHERE substr(e.value ->> 'resource', 1, 4) <> 'job:' ORDER BY 1`

	lastOutcomes = `
SELECT r.job, r.id, r.scheduled_at, r.state, r.reason, r.started_at, r.finished_at, r.retry_waits,
    r.created_at
FROM json_each(?1) n CROSS JOIN holdfast_runs r ON r.id IN (
    SELECT id FROM holdfast_runs WHERE job = n.value ->> 'job' AND backfill IS NULL
        AND created_at > n.value ->> 'after'
        ORDER BY created_at DESC, id DESC LIMIT ?2)
ORDER BY r.created_at DESC, r.id DESC`
)

// ListJobs implements storage.Listings.
func (s *Store) ListJobs(ctx context.Context, f storage.JobFilter) ([]storage.JobView, error) {
	pauses, err := pausesBy(ctx, s.readers, activePauses)
	if err != nil {
		return nil, wrap("list jobs", err)
	}
	query, args, err := jobsQuery(f, pauses)
	if err != nil {
		return nil, wrap("list jobs", err)
	}
	views, err := s.jobViews(ctx, query, args...)
	if err != nil {
		return nil, wrap("list jobs", err)
	}
	if backwards(f.After != "", f.Before != "") {
		slices.Reverse(views)
	}
	return views, wrap("list jobs", s.complete(ctx, views, pauses))
}

// backwards reports whether the filter asks for the page before a position. That page is read from
// its end.
func backwards(after, before bool) bool { return before && !after }

// jobsQuery returns the query of the page, in the order of the primary key.
func jobsQuery(f storage.JobFilter, pauses []storage.Pause) (string, []any, error) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("?%d", len(args))
	}
	where := " WHERE true"
	if f.Names != nil {
		names, err := encode(f.Names)
		if err != nil {
			return "", nil, err
		}
		where += " AND j.name IN (SELECT value FROM json_each(" + arg(names) + "))"
	}
	if f.Text != "" {
		text := "lower(" + arg(f.Text) + ")"
		where += " AND (instr(lower(j.name), " + text + ") > 0 OR instr(lower(d.description), " +
			text + ") > 0)"
	}
	if f.Group != "" {
		where += " AND d.job_group = " + arg(f.Group)
	}
	if f.Ungrouped {
		where += " AND d.job_group = ''"
	}
	if f.Source != "" {
		where += " AND d.source = " + arg(string(f.Source))
	}
	if f.After != "" {
		where += " AND j.name > " + arg(f.After)
	}
	if f.Before != "" {
		where += " AND j.name < " + arg(f.Before)
	}
	switch f.State {
	case "":
	case jobs.Waiting, jobs.Running:
		where += " AND EXISTS (SELECT 1 FROM holdfast_runs r WHERE r.job = j.name AND r.state = " +
			arg(string(f.State)) + " AND NOT (r.state = 'waiting' AND r.key <> ''" +
			" AND r.wait_since > " + arg(micros(time.Now())) + "))"
	default:
		where += " AND " + arg(string(f.State)) + ` = (
    SELECT r.state FROM holdfast_runs r WHERE r.job = j.name AND r.finished_at IS NOT NULL
        ORDER BY r.created_at DESC, r.id DESC LIMIT 1)`
	}
	if f.Paused != nil {
		condition, err := paused(pauses, arg)
		if err != nil {
			return "", nil, err
		}
		where += " AND (" + condition + ") = " + arg(*f.Paused)
	}
	order := " ORDER BY j.name"
	if backwards(f.After != "", f.Before != "") {
		order += " DESC"
	}
	return selectJobs + where + order + " LIMIT " + arg(storage.PageSize(f.Limit)), args, nil
}

// paused is the condition that one of the pauses covers the job.
func paused(pauses []storage.Pause, arg func(any) string) (string, error) {
	names, groups := []string{}, []string{}
	for _, p := range pauses {
		switch p.Target.Kind {
		case storage.TargetAll:
			return "true", nil
		case storage.TargetGroup:
			groups = append(groups, p.Target.Name)
		default:
			names = append(names, p.Target.Name)
		}
	}
	encodedNames, err := encode(names)
	if err != nil {
		return "", err
	}
	encodedGroups, err := encode(groups)
	return "j.name IN (SELECT value FROM json_each(" + arg(encodedNames) +
		")) OR d.job_group <> '' AND d.job_group IN (SELECT value FROM json_each(" +
		arg(encodedGroups) + "))", err
}

func (s *Store) jobViews(ctx context.Context, query string,
	args ...any) ([]storage.JobView, error) {
	var views []storage.JobView
	err := each(ctx, s.readers, query, args, func(rows *sql.Rows) error {
		var v storage.JobView
		var resources string
		var updated int64
		var absent sql.NullInt64
		err := rows.Scan(&v.Name, &v.Hash, &v.Schedule, &v.Zone, &v.Handler, &resources, &v.Recover,
			&v.Description, &v.Group, &v.Priority, &v.Source,
			&v.Version, &v.Removed, &updated, &absent)
		if err != nil {
			return err
		}
		v.UpdatedAt, v.AbsentSince = fromMicros(updated), fromNullMicros(absent)
		v.Resources, err = decodeRequests(resources)
		views = append(views, v)
		return err
	})
	return views, err
}

// complete adds the last runs and the pauses.
func (s *Store) complete(ctx context.Context, views []storage.JobView,
	pauses []storage.Pause) error {
	names := make([]string, len(views))
	for i, v := range views {
		names[i] = v.Name
	}
	encoded, err := encode(names)
	if err != nil {
		return err
	}
	records, err := s.records(ctx, lastRunsOf, encoded)
	if err != nil {
		return err
	}
	last := make(map[string]*storage.Record, len(records))
	for i := range records {
		last[records[i].Job] = &records[i]
	}
	for i := range views {
		v := &views[i]
		v.Last = last[v.Name]
		v.Pauses = slices.DeleteFunc(slices.Clone(pauses), func(p storage.Pause) bool {
			return !p.Covers(v.Name, v.Group)
		})
	}
	return nil
}

// Job implements storage.Listings.
func (s *Store) Job(ctx context.Context, name string) (storage.JobView, error) {
	what := fmt.Sprintf("job %q", name)
	pauses, err := pausesBy(ctx, s.readers, activePauses)
	if err != nil {
		return storage.JobView{}, wrap(what, err)
	}
	views, err := s.jobViews(ctx, selectJobs+" WHERE j.name = ?1", name)
	if err == nil && len(views) == 0 {
		err = storage.ErrNotFound
	}
	if err != nil {
		return storage.JobView{}, wrap(what, err)
	}
	return views[0], wrap(what, s.complete(ctx, views, pauses))
}

// JobStates implements storage.Listings.
func (s *Store) JobStates(ctx context.Context) ([]storage.JobState, error) {
	pauses, err := pausesBy(ctx, s.readers, activePauses)
	if err != nil {
		return nil, wrap("list states of jobs", err)
	}
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("?%d", len(args))
	}
	condition, err := paused(pauses, arg)
	if err != nil {
		return nil, wrap("list states of jobs", err)
	}
	query := fmt.Sprintf(jobStates, condition, arg(micros(time.Now())))
	var states []storage.JobState
	err = each(ctx, s.readers, query, args, func(rows *sql.Rows) error {
		var j storage.JobState
		var checked int64
		err := rows.Scan(&j.Job, &j.Description, &j.Group, &j.Source, &j.Paused, &j.Waiting,
			&j.Running, &j.Last, &j.Schedule, &j.Zone, &j.Handler, &checked)
		j.CheckedUntil = fromMicros(checked)
		states = append(states, j)
		return err
	})
	return states, wrap("list states of jobs", err)
}

// Groups implements storage.Listings.
func (s *Store) Groups(ctx context.Context) ([]storage.Group, error) {
	var groups []storage.Group
	err := each(ctx, s.readers, listGroups, nil, func(rows *sql.Rows) error {
		var g storage.Group
		err := rows.Scan(&g.Name, &g.Jobs)
		groups = append(groups, g)
		return err
	})
	return groups, wrap("list groups", err)
}

// Resources implements storage.Listings.
func (s *Store) Resources(ctx context.Context) ([]locking.Resource, error) {
	var resources []locking.Resource
	err := each(ctx, s.readers, listResources, nil, func(rows *sql.Rows) error {
		var key string
		if err := rows.Scan(&key); err != nil {
			return err
		}
		resource, err := locking.ParseKey(key)
		resources = append(resources, resource)
		return err
	})
	return resources, wrap("list resources", err)
}

// Outcomes implements storage.Listings.
func (s *Store) Outcomes(ctx context.Context, of []storage.OutcomesOf,
	n int) (map[string][]storage.Outcome, error) {
	type selected struct {
		Job   string `json:"job"`
		After int64  `json:"after"`
	}
	jobs := make([]selected, len(of))
	for i, o := range of {
		jobs[i] = selected{o.Job, micros(o.After)}
	}
	encoded, err := encode(jobs)
	if err != nil {
		return nil, wrap("list outcomes", err)
	}
	found := make(map[string][]storage.Outcome, len(of))
	err = each(ctx, s.readers, lastOutcomes, []any{encoded, n}, func(rows *sql.Rows) error {
		var job string
		var o storage.Outcome
		var scheduledAt, createdAt int64
		var started, finished sql.NullInt64
		var waits *string
		if err := rows.Scan(&job, &o.Run, &scheduledAt, &o.State, &o.Reason, &started, &finished,
			&waits, &createdAt); err != nil {
			return err
		}
		var err error
		if o.RetryWaits, err = retryWaitsOf(waits); err != nil {
			return fmt.Errorf("run %s: %w", o.Run, err)
		}
		o.ScheduledAt, o.StartedAt, o.FinishedAt = fromMicros(scheduledAt), fromNullMicros(started),
			fromNullMicros(finished)
		o.CreatedAt = fromMicros(createdAt)
		found[job] = append(found[job], o)
		return nil
	})
	return found, wrap("list outcomes", err)
}
