package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// byCreation holds for all runs. It allows a statement to use the indexes of all runs by the
	// time of their creation, which a search by id must not use.
	byCreation = `created_at > '-infinity'`
	// byScheduledTime is the same for the index runs_triggered.
	byScheduledTime = `scheduled_at > '-infinity'`
	// beforeInfinity is the same for the index runs_by_trigger.
	beforeInfinity = `scheduled_at < 'infinity'`

	selectRuns = `SELECT` + recordColumns + `, '', NULL::text FROM holdfast.runs r`

	// selectWaiting reads the row of each wait once. A join may scan all runs, because the number
	// of waiting runs changes faster than the statistics of the planner.
	selectWaiting = `SELECT` + columnsBeforeWait + ` w.since` + columnsAfterWait + `, '', NULL::text
FROM holdfast.waits w CROSS JOIN LATERAL (
    SELECT * FROM holdfast.runs WHERE id = w.run AND state = 'waiting' OFFSET 0) r`
)

// Runs implements storage.History.
func (s *Store) Runs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error) {
	if f.Nothing() { // PostgreSQL may read a part of an index before it knows
		return nil, nil
	}
	if f.Resource != nil || f.Group != "" || f.JobPrefix != "" {
		return s.runsOfJobs(ctx, f)
	}
	return s.pageOf(ctx, f, nil)
}

// pageOf returns a page of the runs, of the named jobs if there are names.
func (s *Store) pageOf(ctx context.Context, f storage.RunFilter,
	names []string) ([]storage.Record, error) {
	query, args := runsQuery(f, names)
	if query == "" {
		return nil, nil
	}
	rows, err := s.views.Query(ctx, query,
		append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if err != nil {
		return nil, wrap("list runs", err)
	}
	records, err := pgx.CollectRows(rows, scanRecord)
	if backwards(f.Before != nil, f.After != nil) {
		slices.Reverse(records)
	}
	return records, wrap("list runs", err)
}

// runsQuery has one part for each state, so that each part scans an index from its end and stops at
// the limit, however long the history is. Succeeded runs have no index of their own, because they
// are most of the history. It returns no query if no run can match the filter.
func runsQuery(f storage.RunFilter, names []string) (string, []any) {
	var args []any
	q := pageOfRuns{where: " WHERE true", arg: func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}}
	states := f.SearchedStates()
	order := " ORDER BY " + q.find(f, names == nil && f.Reason == "" &&
		!slices.ContainsFunc(states, func(s jobs.State) bool { return s != jobs.Succeeded }))
	page := fmt.Sprintf("%s LIMIT %d", order, storage.PageSize(f.Limit))
	q.order = page
	if names != nil {
		q.names = "SELECT unnest(" + q.arg(names) + `::text[]) COLLATE "C" AS name`
	}
	var parts []string
	switch {
	case len(states) == 0 && f.Reason == "":
		parts = []string{q.ofJobs("")}
	case len(states) == 0:
		parts = []string{q.active(jobs.Waiting, " AND r.reason = "+q.arg(f.Reason)),
			q.ofJobs(q.caused(f))}
	}
	for _, state := range slices.Compact(slices.Sorted(slices.Values(states))) {
		if state == jobs.Succeeded && f.Reason != "" {
			continue // a succeeded run has no reason
		}
		condition := ""
		switch {
		case f.Reason != "" && state.Final():
			condition = q.caused(f)
		case f.Reason != "":
			condition = " AND r.reason = " + q.arg(f.Reason)
		}
		if f.Error != "" {
			q.order = fmt.Sprintf("%s LIMIT %d", order, storage.Searched(state))
		}
		if state.Final() {
			parts = append(parts, q.ofJobs(" AND "+inState(state, q.arg)+condition))
		} else {
			parts = append(parts, q.active(state, condition))
		}
	}
	if len(parts) == 0 {
		return "", nil
	}
	contains := ""
	if f.Error != "" {
		contains = " WHERE " + hasError(q.arg(f.Error))
	} else if len(parts) == 1 {
		return parts[0], args
	}
	for i, part := range parts {
		parts[i] = "SELECT * FROM (" + part + ") part" + contains
	}
	return strings.Join(parts, " UNION ALL ") + page, args
}

// hasError is the condition that the error contains a text.
func hasError(text string) string {
	return `strpos(lower(error COLLATE "C"), lower(` + text + `::text COLLATE "C")) > 0`
}

// pageOfRuns assembles the parts of a page's query.
type pageOfRuns struct {
	arg   func(any) string
	where string
	later string // the argument that says whether runs for a later time are searched; "": both
	order string
	names string // asks for the names of the jobs; "" if the filter selects no jobs
}

// find adds the conditions of the filter and returns the order. If wide is true, many runs have the
// other conditions.
func (q *pageOfRuns) find(f storage.RunFilter, wide bool) (order string) {
	replica, back := f.Replica, backwards(f.Before != nil, f.After != nil)
	wide = wide && replica != "" && f.Job == "" && f.Backfill == uuid.Nil
	if wide {
		f.Replica = ""
	}
	q.narrow(f)
	switch {
	case wide && back:
		q.ofReplica(f, replica)
		return "replica, created_at, id"
	case wide:
		q.ofReplica(f, replica)
		return "replica DESC, created_at DESC, id DESC"
	case back:
		return "created_at, id"
	}
	return "created_at DESC, id DESC"
}

// ofReplica adds the conditions of the runs of a replica as ranges, and the order begins with the
// replica, so that the planner uses the index of replicas. With an equation it reads the newest
// runs of all replicas, which takes seconds if this replica has not run for long.
func (q *pageOfRuns) ofReplica(f storage.RunFilter, replica string) {
	name := q.arg(replica)
	bound := func(columns, operator string, values ...any) {
		list := name
		for _, v := range values {
			list += ", " + q.arg(v)
		}
		q.where += " AND (r.replica" + columns + ") " + operator + " (" + list + ")"
	}
	switch {
	case f.After != nil:
		bound(", r.created_at, r.id", ">", f.After.CreatedAt, f.After.ID)
	case !f.From.IsZero():
		bound(", r.created_at", ">=", f.From)
	default:
		bound("", ">=")
	}
	switch {
	case f.Before != nil:
		bound(", r.created_at, r.id", "<", f.Before.CreatedAt, f.Before.ID)
	case !f.Until.IsZero():
		bound(", r.created_at", "<", f.Until)
	default:
		bound("", "<=")
	}
}

func (q *pageOfRuns) narrow(f storage.RunFilter) {
	if f.Job != "" {
		q.where += " AND r.job = " + q.arg(f.Job)
	}
	if f.Replica != "" {
		q.where += " AND r.replica = " + q.arg(f.Replica)
	}
	if f.Later != nil {
		q.later = q.arg(*f.Later)
	}
	if f.Backfill != uuid.Nil {
		q.where += " AND r.backfill = " + q.arg(f.Backfill)
	}
	if !f.From.IsZero() {
		q.where += " AND r.created_at >= " + q.arg(f.From)
	}
	if !f.Until.IsZero() {
		q.where += " AND r.created_at < " + q.arg(f.Until)
	}
	if f.Before != nil {
		q.where += " AND (r.created_at, r.id) < (" + q.arg(f.Before.CreatedAt) + ", " +
			q.arg(f.Before.ID) + ")"
	}
	if f.After != nil {
		q.where += " AND (r.created_at, r.id) > (" + q.arg(f.After.CreatedAt) + ", " +
			q.arg(f.After.ID) + ")"
	}
}

// ofJobs adds one part for each named job, so that each part scans its own index.
func (q *pageOfRuns) ofJobs(condition string) string {
	condition += q.isLater() + " AND r." + byCreation
	if q.names == "" {
		return selectRuns + q.where + condition + q.order
	}
	each := "SELECT r.id, r.created_at FROM holdfast.runs r" + q.where + " AND r.job = named.name" +
		condition + q.order
	page := "SELECT p.id FROM (" + q.names + ") named CROSS JOIN LATERAL (" + each + ") p" + q.order
	return selectRuns + " WHERE r.id IN (" + page + ")" + q.order
}

// caused is the condition that the run ended for the reason. With named jobs it uses each job's
// index of unsuccessful runs, because the index by cause has those of all jobs.
func (q *pageOfRuns) caused(f storage.RunFilter) string {
	if f.Job != "" || q.names != "" {
		return " AND r.unsuccessful_state IS NOT NULL AND r.reason = " + q.arg(f.Reason)
	}
	return " AND r.cause = " + q.arg(f.Reason)
}

// active reads waiting or running runs, of which there are few.
func (q *pageOfRuns) active(state jobs.State, condition string) string {
	if q.names != "" {
		condition += " AND r.job = ANY(ARRAY(" + q.names + "))"
	}
	if state == jobs.Waiting {
		if q.later != "" {
			condition += " AND (" + waitsForLater + ") = " + q.later
		}
		return selectWaiting + q.where + condition + q.order
	}
	return selectRuns + q.where + " AND " + inState(state, q.arg) + condition + q.isLater() +
		q.order
}

// waitsForLater is the condition that a run was triggered for a time that has not come.
const waitsForLater = "w.triggered AND w.since > clock_timestamp()"

// isLater is the condition of RunFilter.Later for runs in any state.
func (q *pageOfRuns) isLater() string {
	if q.later == "" {
		return ""
	}
	return " AND (r.state = 'waiting' AND EXISTS (SELECT FROM holdfast.waits w " +
		"WHERE w.run = r.id AND " + waitsForLater + ")) = " + q.later
}

// inState is the condition that the run is in the state, which is not waiting. Running runs are
// found by the table of claims.
func inState(state jobs.State, arg func(any) string) string {
	switch state {
	case jobs.Running:
		return "r.id = ANY(ARRAY(SELECT run FROM holdfast.claims)) AND r.state = 'running'"
	case jobs.Succeeded:
		return "r.state = 'succeeded'"
	default:
		return "r.unsuccessful_state = " + arg(state)
	}
}
