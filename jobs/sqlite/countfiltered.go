package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// CountFiltered implements storage.Listings.
func (s *Store) CountFiltered(ctx context.Context, f storage.RunFilter,
	most int) (c storage.RunCount, err error) {
	const what = "count runs of a filter"
	query, bound, args, err := countUnsuccessfulOf(f, most)
	if err != nil {
		return c, wrap(what, err)
	}
	sum := 0
	err = each(ctx, s.readers, query, args, func(rows *sql.Rows) error {
		var state jobs.State
		var matching, examined int
		err := rows.Scan(&state, &matching, &examined)
		sum += examined
		c.AddUnsuccessful(state, matching, examined, bound)
		return err
	})
	if err != nil {
		return c, wrap(what, err)
	}
	if narrowed(f) && sum > bound {
		c.MoreUnsuccessful = true
	}
	if f.Reason != "" || f.Error != "" {
		c.OnlyUnsuccessful()
		return c, nil
	}
	if query, args, err = countAllOf(f, most); err != nil {
		return c, wrap(what, err)
	}
	var examined int
	err = s.readers.QueryRowContext(ctx, query, args...).Scan(&c.Runs, &examined)
	c.More, c.Runs = examined > most, min(c.Runs, most)
	return c, wrap(what, err)
}

// narrowed reports whether an index has the unsuccessful runs in all states.
func narrowed(f storage.RunFilter) bool {
	return f.Backfill != uuid.Nil || f.Job != "" || f.Reason != "" || ofJobs(f)
}

// ofJobs reports whether the filter selects jobs by resource, group or prefix.
func ofJobs(f storage.RunFilter) bool {
	return f.Resource != nil || f.Group != "" || f.JobPrefix != ""
}

// countedRuns assembles the queries of CountFiltered.
type countedRuns struct {
	pageOfRuns
	rest []string // conditions that the index does not have
	args []any
}

// newCountedRuns adds the conditions of the filter, without replica, reason and error.
func newCountedRuns(f storage.RunFilter) (q *countedRuns, err error) {
	q = &countedRuns{}
	q.where = " WHERE true"
	q.arg = func(v any) string {
		q.args = append(q.args, v)
		return fmt.Sprintf("?%d", len(q.args))
	}
	index := storage.RunFilter{From: f.From, Until: f.Until, Backfill: f.Backfill}
	if f.Backfill == uuid.Nil {
		index.Job = f.Job
	} else if f.Job != "" {
		q.rest = append(q.rest, "r.job = "+q.arg(f.Job))
	}
	if err := q.selectJobs(f); err != nil {
		return nil, err
	}
	if q.names != "" && (f.Backfill != uuid.Nil || f.Job != "") {
		q.rest = append(q.rest, "r.job IN ("+q.names+")")
		q.names = ""
	}
	q.narrow(index)
	return q, nil
}

// examined returns a query of the conditions of the rest, and of the state, for at most n runs.
func (q *countedRuns) examined(where string, n int) string {
	match := "true"
	if len(q.rest) > 0 {
		match = strings.Join(q.rest, " AND ")
	}
	columns, limit := "SELECT r.state AS state, "+match+" AS matches FROM ",
		fmt.Sprintf(" LIMIT %d", n)
	if q.names != "" {
		return columns + "(" + q.names + ") named CROSS JOIN holdfast_runs r" + q.where + where +
			" AND r.job = named.name" + limit
	}
	return columns + "holdfast_runs r" + q.index + q.where + where +
		" ORDER BY r.created_at DESC, r.id DESC" + limit
}

// ended is the condition of the indexes of unsuccessful runs.
const ended = " AND r.state NOT IN ('waiting', 'running', 'succeeded')"

// countUnsuccessfulOf returns the query of the numbers of unsuccessful runs by state: of those that
// match, and of those that it reads. It reads at most one run more than the bound, or than the
// bound of each state.
func countUnsuccessfulOf(f storage.RunFilter,
	most int) (query string, bound int, args []any, err error) {
	q, err := newCountedRuns(f)
	if err != nil {
		return "", 0, nil, err
	}
	if f.Replica != "" {
		q.rest = append(q.rest, "r.replica = "+q.arg(f.Replica))
	}
	if f.Error != "" {
		q.rest = append(q.rest, "instr(lower(r.error), lower("+q.arg(f.Error)+")) > 0")
	}
	bound = most
	var parts []string
	switch {
	case f.Backfill != uuid.Nil, f.Job != "", q.names != "":
		if f.Reason != "" {
			q.rest = append(q.rest, "r.reason = "+q.arg(f.Reason))
		}
		parts = []string{q.examined(ended, bound+1)}
	case f.Reason != "":
		parts = []string{q.examined(ended+" AND r.reason = "+q.arg(f.Reason)+" AND r.reason <> ''",
			bound+1)}
	default:
		if len(q.rest) > 0 {
			bound = min(most, storage.ExaminedByState)
		}
		for _, state := range jobs.States() {
			if state.Final() && state != jobs.Succeeded {
				parts = append(parts, q.examined(" AND r.state = "+q.arg(state), bound+1))
			}
		}
	}
	for i, part := range parts {
		parts[i] = "SELECT * FROM (" + part + ")"
	}
	return "SELECT state, sum(matches), count(*) FROM (" + strings.Join(parts, " UNION ALL ") +
		") GROUP BY state", bound, q.args, nil
}

// countAllOf returns the query of the number of runs in all states, and of those that it reads: at
// most one more than most.
func countAllOf(f storage.RunFilter, most int) (query string, args []any, err error) {
	q, err := newCountedRuns(f)
	if err != nil {
		return "", nil, err
	}
	if f.Replica != "" {
		condition := "r.replica = " + q.arg(f.Replica)
		if f.Backfill == uuid.Nil && f.Job == "" && q.names == "" {
			q.where += " AND " + condition
		} else {
			q.rest = append(q.rest, condition)
		}
	}
	return "SELECT coalesce(sum(matches), 0), count(*) FROM (" + q.examined("", most+1) + ")",
		q.args, nil
}
