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

// CountFiltered implements storage.Listings.
func (s *Store) CountFiltered(ctx context.Context, f storage.RunFilter,
	most int) (c storage.RunCount, err error) {
	const what = "count runs of a filter"
	var names []string
	if f.Resource != nil || f.Group != "" || f.JobPrefix != "" {
		names, err = s.selectedJobs(ctx, f)
		if err != nil || len(names) == 0 || f.Job != "" && !slices.Contains(names, f.Job) {
			return c, wrap(what, err)
		}
		if f.Job != "" {
			names = nil
		}
	}
	query, bound, args := countUnsuccessful(f, names, most)
	rows, err := s.views.Query(ctx, query,
		append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if err != nil {
		return c, wrap(what, err)
	}
	var state jobs.State
	var matching, examined, sum int
	_, err = pgx.ForEachRow(rows, []any{&state, &matching, &examined}, func() error {
		sum += examined
		c.AddUnsuccessful(state, matching, examined, bound)
		return nil
	})
	if err != nil {
		return c, wrap(what, err)
	}
	if oneIndexOfUnsuccessful(f, names) && sum > bound {
		c.MoreUnsuccessful = true
	}
	if f.Reason != "" || f.Error != "" {
		c.OnlyUnsuccessful()
		return c, nil
	}
	query, bound, args = countAll(f, names, most)
	err = s.views.QueryRow(ctx, query,
		append([]any{pgx.QueryExecModeCacheDescribe}, args...)...).Scan(&c.Runs, &examined)
	c.More, c.Runs = examined > bound, min(c.Runs, bound)
	return c, wrap(what, err)
}

// countedRuns assembles the queries of CountFiltered.
type countedRuns struct {
	pageOfRuns
	rest []string // conditions that the index does not have
	args []any
}

// newCountedRuns adds the conditions of the filter. An index has those of the time, and of the
// backfill or the jobs. The conditions of replica, reason and error are among the rest.
func newCountedRuns(f storage.RunFilter, names []string) *countedRuns {
	q := newAllCounted()
	index := storage.RunFilter{From: f.From, Until: f.Until, Backfill: f.Backfill}
	switch {
	case f.Backfill == uuid.Nil:
		index.Job = f.Job
		if names != nil {
			q.names = "SELECT unnest(" + q.arg(names) + `::text[]) COLLATE "C" AS name`
		}
	case f.Job != "":
		q.rest = append(q.rest, "r.job = "+q.arg(f.Job))
	case names != nil:
		q.rest = append(q.rest, "r.job = ANY("+q.arg(names)+"::text[])")
	}
	q.narrow(index)
	q.order = " ORDER BY r.created_at DESC, r.id DESC"
	return q
}

// newAllCounted has no conditions of a filter.
func newAllCounted() *countedRuns {
	q := &countedRuns{}
	q.where = " WHERE r." + byCreation
	q.arg = func(v any) string {
		q.args = append(q.args, v)
		return fmt.Sprintf("$%d", len(q.args))
	}
	return q
}

// examined returns a query of the conditions of the rest, and of state, for at most n runs.
func (q *countedRuns) examined(state, where string, n int) string {
	match := "true"
	if len(q.rest) > 0 {
		match = strings.Join(q.rest, " AND ")
	}
	one := "SELECT " + state + " AS state, (" + match + ") AS matches FROM holdfast.runs r" +
		q.where + where
	limit := fmt.Sprintf(" LIMIT %d", n)
	if q.names == "" {
		return one + q.order + limit
	}
	return "SELECT e.state, e.matches FROM (" + q.names + ") named CROSS JOIN LATERAL (" + one +
		" AND r.job = named.name" + q.order + limit + ") e" + limit
}

// oneIndexOfUnsuccessful reports whether an index has the unsuccessful runs in all states.
func oneIndexOfUnsuccessful(f storage.RunFilter, names []string) bool {
	return f.Backfill != uuid.Nil || f.Job != "" || names != nil || f.Reason != ""
}

// countUnsuccessful returns the query of the numbers of unsuccessful runs by state: of those that
// match, and of those that it reads. It reads at most one run more than the bound, or than the
// bound of each state.
func countUnsuccessful(f storage.RunFilter, names []string,
	most int) (query string, bound int, args []any) {
	q := newCountedRuns(f, names)
	if f.Replica != "" {
		q.rest = append(q.rest, "r.replica = "+q.arg(f.Replica))
	}
	if f.Error != "" {
		q.rest = append(q.rest, hasError(q.arg(f.Error)))
	}
	bound = most
	var parts []string
	switch {
	case f.Backfill != uuid.Nil, f.Job != "", names != nil:
		if f.Reason != "" {
			q.rest = append(q.rest, "r.reason = "+q.arg(f.Reason))
		}
		parts = []string{q.examined("r.unsuccessful_state", " AND r.unsuccessful_state IS NOT NULL",
			bound+1)}
	case f.Reason != "":
		parts = []string{q.examined("r.unsuccessful_state", " AND r.cause = "+q.arg(f.Reason),
			bound+1)}
	default:
		if len(q.rest) > 0 {
			bound = min(most, storage.ExaminedByState)
		}
		for _, state := range jobs.States() {
			if state.Final() && state != jobs.Succeeded {
				text := "'" + string(state) + "'"
				parts = append(parts, q.examined(text, " AND r.unsuccessful_state = "+text,
					bound+1))
			}
		}
	}
	return "SELECT state, count(*) FILTER (WHERE matches), count(*) FROM ((" +
		strings.Join(parts, ") UNION ALL (") + ")) a GROUP BY state", bound, q.args
}

// examinedRows bounds the runs that countAll reads from the table, and not only from an index.
const examinedRows = 4_000

// countAll returns the query of the number of runs in all states, and of those that it reads: at
// most one more than the bound.
func countAll(f storage.RunFilter, names []string,
	most int) (query string, bound int, args []any) {
	bound = most
	var q *countedRuns
	if f.Replica != "" && f.Backfill == uuid.Nil && f.Job == "" && names == nil {
		q = newAllCounted()
		q.order = " ORDER BY " + q.find(storage.RunFilter{From: f.From, Until: f.Until,
			Replica: f.Replica}, true)
	} else if q = newCountedRuns(f, names); f.Replica != "" {
		q.rest = append(q.rest, "r.replica = "+q.arg(f.Replica))
	}
	if len(q.rest) > 0 {
		bound = min(most, examinedRows)
	}
	return "SELECT count(*) FILTER (WHERE matches), count(*) FROM (" +
		q.examined("''", "", bound+1) + ") a", bound, q.args
}
