package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	endsOfState = `
(SELECT job, unsuccessful_state AS state, coalesce(cause, '') AS reason, created_at
    FROM holdfast.runs WHERE unsuccessful_state = '%s' AND created_at >= $1
    ORDER BY created_at DESC, id DESC LIMIT %d)`

	endsOfJob = `
SELECT job, state, reason, created_at FROM holdfast.runs WHERE job = $1 AND created_at >= $2
    AND ` + byCreation + ` ORDER BY created_at DESC, id DESC LIMIT %d`

	// endedOfState has its own limit, because few runs are enough to find jobs.
	endedOfState = `
(SELECT job, unsuccessful_state AS state FROM holdfast.runs WHERE unsuccessful_state = '%s'
    AND created_at >= $1 AND created_at < $2 ORDER BY created_at DESC, id DESC LIMIT $3)`

	endedJobs = `SELECT job, state, count(*) FROM (%s) r GROUP BY job, state`

	selectEndCounts = `
SELECT job, state, reason, count(*), max(created_at) FROM (%s) r
    WHERE state NOT IN ('waiting', 'running') GROUP BY job, state, reason`

	// countRuns counts runs by entries of runs_job. It reads those that did not succeed.
	countRuns = `
SELECT p.n - 1, a.runs, coalesce(u.state, ''), coalesce(u.runs, 0), u.last
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[])
    WITH ORDINALITY AS p (job, since, until, n)
CROSS JOIN LATERAL (
    SELECT count(*) AS runs FROM (
        SELECT FROM holdfast.runs r WHERE r.job = p.job COLLATE "C" AND r.created_at >= p.since
            AND r.created_at < p.until AND r.` + byCreation + ` LIMIT $4) r) a
LEFT JOIN LATERAL (
    SELECT r.state, count(*) AS runs, max(r.scheduled_at) AS last FROM (
        SELECT r.unsuccessful_state AS state, r.scheduled_at FROM holdfast.runs r
        WHERE r.job = p.job COLLATE "C" AND r.unsuccessful_state IS NOT NULL
            AND r.created_at >= p.since AND r.created_at < p.until
        ORDER BY r.created_at DESC, r.id DESC LIMIT $5) r GROUP BY r.state) u ON a.runs > 0
ORDER BY p.n`
)

// EndCounts implements storage.Listings.
func (s *Store) EndCounts(ctx context.Context, since time.Time) ([]storage.EndCount, error) {
	var parts []string
	for _, state := range jobs.States() {
		if state.Final() && state != jobs.Succeeded {
			parts = append(parts, fmt.Sprintf(endsOfState, state, storage.MaxTallied))
		}
	}
	return s.endCounts(ctx, strings.Join(parts, " UNION ALL "), since)
}

// JobEndCounts implements storage.Listings.
func (s *Store) JobEndCounts(ctx context.Context, job string,
	since time.Time) ([]storage.EndCount, error) {
	return s.endCounts(ctx, fmt.Sprintf(endsOfJob, storage.MaxTallied), job, since)
}

func (s *Store) endCounts(ctx context.Context, of string, args ...any) ([]storage.EndCount, error) {
	rows, err := s.views.Query(ctx, fmt.Sprintf(selectEndCounts, of),
		append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if err != nil {
		return nil, wrap("count runs", err)
	}
	endCounts, err := pgx.CollectRows(rows,
		func(row pgx.CollectableRow) (t storage.EndCount, err error) {
			err = row.Scan(&t.Job, &t.State, &t.Reason, &t.Runs, &t.Last)
			t.Last = t.Last.UTC()
			return t, err
		})
	return endCounts, wrap("count runs", err)
}

// EndedJobs implements storage.Listings.
func (s *Store) EndedJobs(ctx context.Context,
	f storage.EndedJobsFilter) (storage.EndedJobs, error) {
	parts := make([]string, len(f.States))
	for i, state := range f.States {
		parts[i] = fmt.Sprintf(endedOfState, state)
	}
	rows, err := s.views.Query(ctx, fmt.Sprintf(endedJobs, strings.Join(parts, " UNION ALL ")),
		f.From, f.Until, f.Most+1)
	if err != nil {
		return storage.EndedJobs{}, wrap("list jobs by ended runs", err)
	}
	counts, err := pgx.CollectRows(rows,
		func(row pgx.CollectableRow) (c storage.EndCount, err error) {
			return c, row.Scan(&c.Job, &c.State, &c.Runs)
		})
	return storage.NewEndedJobs(counts, f), wrap("list jobs by ended runs", err)
}

// CountRuns implements storage.Listings.
func (s *Store) CountRuns(ctx context.Context, parts []storage.JobPart,
	most int) ([]storage.JobPartCount, error) {
	names, since, until := make([]string, len(parts)), make([]time.Time, len(parts)),
		make([]time.Time, len(parts))
	for i, p := range parts {
		names[i], since[i], until[i] = p.Job, p.From, p.Until
	}
	unsuccessful := min(most, storage.MaxUnsuccessful)
	rows, err := s.views.Query(ctx, countRuns, names, since, until, most+1, unsuccessful+1)
	if err != nil {
		return nil, wrap("count runs by time", err)
	}
	counts := make([]storage.JobPartCount, len(parts))
	var i, all, runs int
	var state jobs.State
	var last *time.Time
	_, err = pgx.ForEachRow(rows, []any{&i, &all, &state, &runs, &last}, func() error {
		counts[i].Runs = all
		if last != nil {
			counts[i].Add(state, runs, last.UTC())
		}
		return nil
	})
	for i := range counts {
		counts[i].Bound(most)
	}
	return counts, wrap("count runs by time", err)
}
