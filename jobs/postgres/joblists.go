package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	selectJobs = `
SELECT j.name, d.hash, d.schedule, d.zone, d.handler, d.resources, d.recover, d.description,
    d.job_group, d.priority, d.source,
    d.version, j.version < 0 AS removed, j.updated_at,
    CASE WHEN j.back_at IS NULL THEN j.left_at END AS absent_since
FROM holdfast.jobs j JOIN holdfast.definitions d ON d.job = j.name AND d.version = abs(j.version)`

	// lastEndedIn reads the last run of one job after the other, in the order of the page, and
	// stops after the page. Without OFFSET, the planner reads the last runs of all jobs and then
	// sorts.
	lastEndedIn = `SELECT j.* FROM (%[1]s%[2]s OFFSET 0) j WHERE %[3]s = (
    SELECT r.state FROM holdfast.runs r WHERE r.job = j.name
        AND r.state NOT IN ('waiting', 'running') AND r.` + byCreation + `
    ORDER BY r.created_at DESC, r.id DESC LIMIT 1)%[2]s`

	// mayBeLast is a condition for the jobs that have a run in a state, if the history has few such
	// runs. Without it the page reads the last run of each job to find the few jobs whose last run
	// is in the state.
	mayBeLast = ` AND (CASE WHEN (SELECT count(*) FROM (
        SELECT FROM holdfast.runs WHERE unsuccessful_state = %[1]s LIMIT %[2]d) few) = %[2]d
    THEN true
    ELSE j.name IN (SELECT job FROM holdfast.runs WHERE unsuccessful_state = %[1]s) END)`

	// waitsNow selects the waiting runs, except those that were triggered for a later time.
	waitsNow = `SELECT w.run FROM holdfast.waits w WHERE NOT (` + waitsForLater + `)`

	// jobStates reads the last run of each job.
	jobStates = `
SELECT j.name, d.description, d.job_group, d.source, %s, j.name IN (SELECT r.job
        FROM holdfast.runs r WHERE r.id = ANY(ARRAY(` + waitsNow + `))),
    j.name IN (SELECT r.job
        FROM holdfast.runs r WHERE r.id = ANY(ARRAY(SELECT run FROM holdfast.claims))),
    coalesce((SELECT r.state FROM holdfast.runs r WHERE r.job = d.job
        AND r.state NOT IN ('waiting', 'running') AND r.` + byCreation + `
        ORDER BY r.created_at DESC, r.id DESC LIMIT 1), ''),
    d.schedule, d.zone, d.handler, j.checked_until
FROM holdfast.jobs j JOIN holdfast.definitions d ON d.job = j.name AND d.version = abs(j.version)
ORDER BY j.name`

	lastRunsOf = `
SELECT` + recordColumns + `, '', NULL::text
FROM unnest($1::text[]) n (job) CROSS JOIN LATERAL (
    SELECT * FROM holdfast.runs WHERE job = n.job COLLATE "C"
        AND state NOT IN ('waiting', 'running') AND ` + byCreation + `
    ORDER BY created_at DESC, id DESC LIMIT 1) r`

	activePauses = `SELECT` + pauseColumns + ` FROM holdfast.pauses WHERE resumed_at IS NULL
		ORDER BY paused_at, id`

	listGroups = `
SELECT d.job_group, count(*) FROM holdfast.jobs j
    JOIN holdfast.definitions d ON d.job = j.name AND d.version = j.version
WHERE d.job_group <> '' GROUP BY d.job_group ORDER BY d.job_group`

	listResources = `
SELECT DISTINCT e ->> 'resource' COLLATE "C" AS key
FROM holdfast.jobs j JOIN holdfast.definitions d ON d.job = j.name AND d.version = j.version
CROSS JOIN LATERAL jsonb_array_elements(d.resources) e
    WHERE NOT starts_with(e ->> 'resource', 'job:') ORDER BY key`

	lastOutcomes = `
SELECT r.job, r.id, r.scheduled_at, r.state, r.reason, r.started_at, r.finished_at, r.retry_waits,
    r.created_at
FROM unnest($1::text[], $2::timestamptz[]) n (job, after) CROSS JOIN LATERAL (
    SELECT * FROM holdfast.runs WHERE job = n.job COLLATE "C" AND backfill IS NULL
        AND created_at > n.after AND ` + byCreation + `
        ORDER BY created_at DESC, id DESC LIMIT %d) r
ORDER BY r.created_at DESC, r.id DESC`
)

// maxRare is the number of runs from which a state is not rare.
const maxRare = 2_000

// ListJobs implements storage.Listings.
func (s *Store) ListJobs(ctx context.Context, f storage.JobFilter) ([]storage.JobView, error) {
	pauses, err := s.activePauses(ctx)
	if err != nil {
		return nil, wrap("list jobs", err)
	}
	query, args := jobsQuery(f, pauses)
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
func jobsQuery(f storage.JobFilter, pauses []storage.Pause) (string, []any) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	where := " WHERE true"
	if f.Names != nil {
		where += " AND j.name = ANY(" + arg(f.Names) + ")"
	}
	if f.Text != "" {
		text := `lower(` + arg(f.Text) + `::text COLLATE "C")`
		where += ` AND (strpos(lower(j.name), ` + text + `) > 0
			OR strpos(lower(d.description COLLATE "C"), ` + text + `) > 0)`
	}
	if f.Group != "" {
		where += " AND d.job_group = " + arg(f.Group)
	}
	if f.Ungrouped {
		where += " AND d.job_group = ''"
	}
	if f.Source != "" {
		where += " AND d.source = " + arg(f.Source)
	}
	if f.After != "" {
		where += " AND j.name > " + arg(f.After)
	}
	if f.Before != "" {
		where += " AND j.name < " + arg(f.Before)
	}
	var ended string // the argument with the final state
	switch f.State {
	case "":
	case jobs.Waiting:
		where += ` AND j.name IN (SELECT r.job FROM holdfast.runs r
    WHERE r.id = ANY(ARRAY(` + waitsNow + `)))`
	case jobs.Running:
		// An array, because a join may scan all runs: the number of claims changes faster than the
		// statistics of the planner.
		where += ` AND j.name IN (SELECT r.job FROM holdfast.runs r
    WHERE r.id = ANY(ARRAY(SELECT run FROM holdfast.claims)))`
	default:
		ended = arg(f.State)
		if f.State != jobs.Succeeded {
			where += fmt.Sprintf(mayBeLast, ended, maxRare)
		}
	}
	if f.Paused != nil {
		where += " AND (" + paused(pauses, arg) + ") = " + arg(*f.Paused)
	}
	query, order := selectJobs+where, " ORDER BY j.name"
	if backwards(f.After != "", f.Before != "") {
		order += " DESC"
	}
	if ended != "" {
		query = fmt.Sprintf(lastEndedIn, query, order, ended)
	} else {
		query += order
	}
	return query + fmt.Sprintf(" LIMIT %d", storage.PageSize(f.Limit)), args
}

// paused is the condition that one of the pauses covers the job.
func paused(pauses []storage.Pause, arg func(any) string) string {
	names, groups := []string{}, []string{}
	for _, p := range pauses {
		switch p.Target.Kind {
		case storage.TargetAll:
			return "true"
		case storage.TargetGroup:
			groups = append(groups, p.Target.Name)
		default:
			names = append(names, p.Target.Name)
		}
	}
	return "j.name = ANY(" + arg(names) + ") OR d.job_group <> '' AND d.job_group = ANY(" +
		arg(groups) + ")"
}

func (s *Store) jobViews(ctx context.Context, query string,
	args ...any) ([]storage.JobView, error) {
	rows, err := s.views.Query(ctx, query,
		append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (storage.JobView, error) {
		var v storage.JobView
		var resources []byte
		err := row.Scan(&v.Name, &v.Hash, &v.Schedule, &v.Zone, &v.Handler, &resources, &v.Recover,
			&v.Description, &v.Group, &v.Priority, &v.Source,
			&v.Version, &v.Removed, &v.UpdatedAt, &v.AbsentSince)
		if err != nil {
			return v, err
		}
		v.UpdatedAt = v.UpdatedAt.UTC()
		if v.AbsentSince != nil {
			*v.AbsentSince = v.AbsentSince.UTC()
		}
		v.Resources, err = parseRequests(resources)
		return v, err
	})
}

// complete adds the last runs and the pauses.
func (s *Store) complete(ctx context.Context, views []storage.JobView,
	pauses []storage.Pause) error {
	names := make([]string, len(views))
	for i, v := range views {
		names[i] = v.Name
	}
	rows, err := s.views.Query(ctx, lastRunsOf, names)
	if err != nil {
		return err
	}
	records, err := pgx.CollectRows(rows, scanRecord)
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

func (s *Store) activePauses(ctx context.Context) ([]storage.Pause, error) {
	rows, err := s.views.Query(ctx, activePauses)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanPause)
}

// Job implements storage.Listings.
func (s *Store) Job(ctx context.Context, name string) (storage.JobView, error) {
	what := fmt.Sprintf("job %q", name)
	pauses, err := s.activePauses(ctx)
	if err != nil {
		return storage.JobView{}, wrap(what, err)
	}
	views, err := s.jobViews(ctx, selectJobs+" WHERE j.name = $1", name)
	if err != nil {
		return storage.JobView{}, wrap(what, err)
	}
	if len(views) == 0 {
		return storage.JobView{}, fmt.Errorf("%s: %w", what, storage.ErrNotFound)
	}
	return views[0], wrap(what, s.complete(ctx, views, pauses))
}

// JobStates implements storage.Listings.
func (s *Store) JobStates(ctx context.Context) ([]storage.JobState, error) {
	pauses, err := s.activePauses(ctx)
	if err != nil {
		return nil, wrap("list states of jobs", err)
	}
	query, args := jobStatesQuery(pauses)
	rows, err := s.views.Query(ctx, query, args...)
	if err != nil {
		return nil, wrap("list states of jobs", err)
	}
	states, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storage.JobState])
	for i := range states {
		states[i].CheckedUntil = states[i].CheckedUntil.UTC()
	}
	return states, wrap("list states of jobs", err)
}

func jobStatesQuery(pauses []storage.Pause) (query string, args []any) {
	condition := paused(pauses, func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	})
	return fmt.Sprintf(jobStates, condition), args
}

// Groups implements storage.Listings.
func (s *Store) Groups(ctx context.Context) ([]storage.Group, error) {
	rows, err := s.views.Query(ctx, listGroups)
	if err != nil {
		return nil, wrap("list groups", err)
	}
	groups, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storage.Group])
	return groups, wrap("list groups", err)
}

// Resources implements storage.Listings.
func (s *Store) Resources(ctx context.Context) ([]locking.Resource, error) {
	rows, err := s.views.Query(ctx, listResources)
	if err != nil {
		return nil, wrap("list resources", err)
	}
	resources, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (locking.Resource, error) {
		var key string
		if err := row.Scan(&key); err != nil {
			return locking.Resource{}, err
		}
		return locking.ParseKey(key)
	})
	return resources, wrap("list resources", err)
}

// Outcomes implements storage.Listings.
func (s *Store) Outcomes(ctx context.Context, of []storage.OutcomesOf,
	n int) (map[string][]storage.Outcome, error) {
	names, after := make([]string, len(of)), make([]time.Time, len(of))
	for i, o := range of {
		names[i], after[i] = o.Job, o.After
	}
	rows, err := s.views.Query(ctx, fmt.Sprintf(lastOutcomes, n), names, after)
	if err != nil {
		return nil, wrap("list outcomes", err)
	}
	found := make(map[string][]storage.Outcome, len(of))
	var job string
	var o storage.Outcome
	var waits []time.Time
	_, err = pgx.ForEachRow(rows,
		[]any{&job, &o.Run, &o.ScheduledAt, &o.State, &o.Reason, &o.StartedAt, &o.FinishedAt,
			&waits, &o.CreatedAt}, func() error {
			o.ScheduledAt, o.StartedAt, o.FinishedAt = o.ScheduledAt.UTC(), utc(o.StartedAt),
				utc(o.FinishedAt)
			o.CreatedAt = o.CreatedAt.UTC()
			o.RetryWaits = storage.NewRetryWaits(waits)
			found[job] = append(found[job], o)
			return nil
		})
	return found, wrap("list outcomes", err)
}
