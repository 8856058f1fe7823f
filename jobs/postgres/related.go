package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// lookedThrough is how many of the next runs by time are searched for those of selected jobs,
// before a query for each of the jobs. If there are many jobs, or they run often, these runs
// contain the page, and a query for each of hundreds of jobs would take a thousand times as long.
// If they run seldom, each has few runs.
const lookedThrough = 5_000

// lookedBack are the times before these runs in which a query for each of the jobs looks for the
// page first. Otherwise each of hundreds of jobs reads a page of its own runs. Jobs that run hourly
// or daily have a page in one of these times.
func lookedBack() []time.Duration { return []time.Duration{time.Hour, 24 * time.Hour} }

// runsOfJobs returns a page of the runs of the jobs that the filter selects by resource, group or
// prefix.
func (s *Store) runsOfJobs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error) {
	names, err := s.selectedJobs(ctx, f)
	if err != nil || len(names) == 0 {
		return nil, wrap("list runs", err)
	}
	if f.Job != "" {
		if !slices.Contains(names, f.Job) {
			return nil, nil
		}
		return s.pageOf(ctx, f, nil)
	}
	var found []storage.Record
	for _, part := range inParts(f) {
		records, err := s.relatedPart(ctx, part, names)
		if err != nil {
			return nil, wrap("list runs", err)
		}
		found = append(found, records...)
	}
	slices.SortFunc(found, func(a, b storage.Record) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(b.ID[:], a.ID[:]))
	})
	found = slices.CompactFunc(found, func(a, b storage.Record) bool { return a.ID == b.ID })
	most := min(len(found), storage.PageSize(f.Limit))
	if backwards(f.Before != nil, f.After != nil) {
		return found[len(found)-most:], nil
	}
	return found[:most], nil
}

func (s *Store) selectedJobs(ctx context.Context, f storage.RunFilter) ([]string, error) {
	query, args := selectedJobsQuery(f)
	rows, err := s.views.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// selectedJobsQuery lists the jobs, removed ones included, that the filter selects. A definition
// selects a job by a resource if it locks the resource, an ancestor or a descendant.
func selectedJobsQuery(f storage.RunFilter) (string, []any) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	from, where := "SELECT j.name FROM holdfast.jobs j", " WHERE true"
	if f.Group != "" || f.Resource != nil {
		from += " JOIN holdfast.definitions d ON d.job = j.name AND d.version = abs(j.version)"
	}
	if f.JobPrefix != "" {
		where += " AND starts_with(j.name, " + arg(f.JobPrefix) + ")"
	}
	if f.Group != "" {
		where += " AND d.job_group = " + arg(f.Group)
	}
	if f.Resource != nil {
		// A path is evaluated faster than a subquery of the elements.
		where += " AND d.resources @? " + arg(pathOfResource(*f.Resource)) + "::jsonpath"
	}
	if len(f.States) > 0 && !slices.ContainsFunc(f.States, jobs.State.Final) { // few jobs
		where += ` AND j.name IN (SELECT r.job FROM holdfast.runs r
    WHERE r.id = ANY(ARRAY(
        SELECT run FROM holdfast.waits UNION ALL SELECT run FROM holdfast.claims)))`
	}
	return from + where, args
}

// pathOfResource is a jsonpath that finds the resource, an ancestor or a descendant.
func pathOfResource(r locking.Resource) string {
	path := "$[*].resource ? (@ starts with " + pathText(r.Key()+"/")
	for _, same := range append(r.Ancestors(), r) {
		path += " || @ == " + pathText(same.Key())
	}
	return path + ")"
}

// pathText quotes a text for a jsonpath, which has the escapes of JSON.
func pathText(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always has a JSON text
	}
	return string(quoted)
}

// inParts returns one filter for each of the states, because each state has its own query.
func inParts(f storage.RunFilter) []storage.RunFilter {
	var parts []storage.RunFilter
	of := func(states ...jobs.State) {
		part := f
		part.States = states
		parts = append(parts, part)
	}
	for _, state := range slices.Compact(slices.Sorted(slices.Values(f.SearchedStates()))) {
		of(state)
	}
	if len(f.SearchedStates()) == 0 {
		of()
		if f.Reason != "" {
			of(jobs.Waiting) // which no index of reasons has
		}
	}
	return parts
}

// relatedPart returns a page of the runs in one state, or in any.
func (s *Store) relatedPart(ctx context.Context, f storage.RunFilter,
	names []string) ([]storage.Record, error) {
	query, args := throughQuery(f, names)
	if query == "" {
		return s.pageOf(ctx, f, names)
	}
	var looked int
	var oldest, newest *time.Time // nil: none was looked at
	var ids []uuid.UUID
	row := s.views.QueryRow(ctx, query, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if err := row.Scan(&looked, &oldest, &newest, &ids); err != nil {
		return nil, err
	}
	if f.Error == "" && looked == lookedThrough && len(ids) < storage.PageSize(f.Limit) {
		return s.ofEachJob(ctx, f, names, *oldest, *newest)
	}
	rows, err := s.views.Query(ctx, selectRuns+" WHERE r.id = ANY($1)", ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRecord)
}

// ofEachJob returns a page of the runs of the named jobs, by the index of each job. Less than a
// page of them was created between oldest and newest.
func (s *Store) ofEachJob(ctx context.Context, f storage.RunFilter, names []string,
	oldest, newest time.Time) ([]storage.Record, error) {
	for _, back := range lookedBack() {
		near := f
		if backwards(f.Before != nil, f.After != nil) {
			near.Until = newest.Add(back)
			if !f.Until.IsZero() && f.Until.Before(near.Until) {
				break
			}
		} else if near.From = oldest.Add(-back); near.From.Before(f.From) {
			break
		}
		page, err := s.pageOf(ctx, near, names)
		if err != nil || len(page) == storage.PageSize(f.Limit) {
			return page, err
		}
	}
	return s.pageOf(ctx, f, names)
}

// throughQuery searches the next runs by the most selective index. Its result is how many runs it
// has read, the oldest and the newest time of their creation, and the ids of a page. It returns no
// query for waiting and running runs, of which there are few.
func throughQuery(f storage.RunFilter, names []string) (string, []any) {
	var args []any
	q := pageOfRuns{where: " WHERE true", arg: func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}}
	rest := ` WHERE job IN (SELECT unnest(` + q.arg(names) + `::text[]) COLLATE "C")`
	var state jobs.State
	if len(f.States) > 0 {
		state = f.States[0]
	}
	troubled := state != "" && state != jobs.Succeeded
	if troubled && !state.Final() || f.Reason != "" && state == jobs.Succeeded {
		return "", nil
	}
	columns := "r.id, r.created_at, r.job" // without more columns, an index may be enough
	onlyIf := func(condition, column string) {
		rest += " AND " + condition
		columns += ", r." + column
	}
	if f.Reason != "" {
		q.where += " AND r.cause = " + q.arg(f.Reason)
	} else if troubled {
		q.where += " AND r.unsuccessful_state = " + q.arg(state)
	}
	if f.Reason != "" && troubled {
		onlyIf("unsuccessful_state = "+q.arg(state), "unsuccessful_state")
	} else if state == jobs.Succeeded {
		onlyIf("state = "+q.arg(state), "state")
	}
	if f.Replica != "" && (troubled || f.Reason != "") { // few runs are unsuccessful
		onlyIf("replica = "+q.arg(f.Replica), "replica")
		f.Replica = ""
	}
	most := lookedThrough
	if f.Error != "" {
		most = storage.Searched(state)
		onlyIf(hasError(q.arg(f.Error)), "error")
	}
	first := " ORDER BY " + q.find(f, true)
	order := " ORDER BY created_at DESC, id DESC"
	if backwards(f.Before != nil, f.After != nil) {
		order = " ORDER BY created_at, id"
	}
	through := "SELECT " + columns + " FROM holdfast.runs r" + q.where + " AND r." + byCreation +
		first + fmt.Sprintf(" LIMIT %d", most)
	return "WITH through AS MATERIALIZED (" + through +
		") SELECT (SELECT count(*) FROM through), (SELECT min(created_at) FROM through), " +
		"(SELECT max(created_at) FROM through), ARRAY(SELECT id FROM through" + rest + order +
		fmt.Sprintf(" LIMIT %d)", storage.PageSize(f.Limit)), args
}
