package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	endsOfState = `
SELECT * FROM (SELECT job, state, reason, created_at FROM holdfast_runs
    WHERE state = '%s' AND created_at >= ?1 ORDER BY created_at DESC, id DESC LIMIT %d)`

	endsOfJob = `
SELECT job, state, reason, created_at FROM holdfast_runs WHERE job = ?1 AND created_at >= ?2
    ORDER BY created_at DESC, id DESC LIMIT %d`

	endedOfState = `
SELECT * FROM (SELECT job, state FROM holdfast_runs WHERE state = '%s' AND created_at >= ?1
    AND created_at < ?2 ORDER BY created_at DESC, id DESC LIMIT ?3)`

	endedJobs = `SELECT job, state, count(*) FROM (%s) GROUP BY job, state`

	selectEndCounts = `
SELECT job, state, reason, count(*), max(created_at) FROM (%s)
    WHERE state NOT IN ('waiting', 'running') GROUP BY job, state, reason`

	// countRuns and countUnsuccessful have the parts as an array of [job, from, until].
	countRuns = `
SELECT p.key, (SELECT count(*) FROM (SELECT 1 FROM holdfast_runs r WHERE r.job = p.value ->> 0
    AND r.created_at >= p.value ->> 1 AND r.created_at < p.value ->> 2 LIMIT ?2))
FROM json_each(?1) p`

	countUnsuccessful = `
SELECT p.key, r.state, count(*), max(r.scheduled_at)
FROM json_each(?1) p CROSS JOIN holdfast_runs r ON r.id IN (
    SELECT id FROM holdfast_runs WHERE job = p.value ->> 0
        AND state NOT IN ('waiting', 'running', 'succeeded')
        AND created_at >= p.value ->> 1 AND created_at < p.value ->> 2
    ORDER BY created_at DESC, id DESC LIMIT ?2)
GROUP BY p.key, r.state`
)

// EndCounts implements storage.Listings.
func (s *Store) EndCounts(ctx context.Context, since time.Time) ([]storage.EndCount, error) {
	var parts []string
	for _, state := range jobs.States() {
		if state.Final() && state != jobs.Succeeded {
			parts = append(parts, fmt.Sprintf(endsOfState, state, storage.MaxTallied))
		}
	}
	return s.endCounts(ctx, strings.Join(parts, " UNION ALL "), micros(since))
}

// JobEndCounts implements storage.Listings.
func (s *Store) JobEndCounts(ctx context.Context, job string,
	since time.Time) ([]storage.EndCount, error) {
	return s.endCounts(ctx, fmt.Sprintf(endsOfJob, storage.MaxTallied), job, micros(since))
}

func (s *Store) endCounts(ctx context.Context, of string, args ...any) ([]storage.EndCount, error) {
	var endCounts []storage.EndCount
	err := each(ctx, s.readers, fmt.Sprintf(selectEndCounts, of), args, func(rows *sql.Rows) error {
		var t storage.EndCount
		var last int64
		err := rows.Scan(&t.Job, &t.State, &t.Reason, &t.Runs, &last)
		t.Last = fromMicros(last)
		endCounts = append(endCounts, t)
		return err
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
	var counts []storage.EndCount
	err := each(ctx, s.readers, fmt.Sprintf(endedJobs, strings.Join(parts, " UNION ALL ")),
		[]any{micros(f.From), micros(f.Until), f.Most + 1}, func(rows *sql.Rows) error {
			var c storage.EndCount
			err := rows.Scan(&c.Job, &c.State, &c.Runs)
			counts = append(counts, c)
			return err
		})
	return storage.NewEndedJobs(counts, f), wrap("list jobs by ended runs", err)
}

// CountRuns implements storage.Listings.
func (s *Store) CountRuns(ctx context.Context, parts []storage.JobPart,
	most int) ([]storage.JobPartCount, error) {
	list := make([][3]any, len(parts))
	for i, p := range parts {
		list[i] = [3]any{p.Job, micros(p.From), micros(p.Until)}
	}
	encoded, err := encode(list)
	if err != nil {
		return nil, wrap("count runs by time", err)
	}
	counts := make([]storage.JobPartCount, len(parts))
	err = each(ctx, s.readers, countRuns, []any{encoded, most + 1}, func(rows *sql.Rows) error {
		var i, runs int
		err := rows.Scan(&i, &runs)
		if err == nil {
			counts[i].Runs = runs
		}
		return err
	})
	if err != nil {
		return nil, wrap("count runs by time", err)
	}
	args := []any{encoded, min(most, storage.MaxUnsuccessful) + 1}
	err = each(ctx, s.readers, countUnsuccessful, args, func(rows *sql.Rows) error {
		var i, runs int
		var state jobs.State
		var last int64
		err := rows.Scan(&i, &state, &runs, &last)
		if err == nil {
			counts[i].Add(state, runs, fromMicros(last))
		}
		return err
	})
	for i := range counts {
		counts[i].Bound(most)
	}
	return counts, wrap("count runs by time", err)
}
