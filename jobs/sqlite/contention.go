package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	listJobRequests = `
SELECT j.name, d.resources FROM holdfast_jobs j CROSS
    JOIN holdfast_definitions d ON d.job = j.name AND d.version = j.version
WHERE d.resources <> '[]' ORDER BY j.name`

	intervalsWithin = `
SELECT r.id, r.job, r.scheduled_at, r.state, r.reason, r.replica, r.created_at, r.started_at,
    r.finished_at, r.retry_waits, r.blocker
FROM json_each(?1) n CROSS JOIN holdfast_runs r ON r.id IN (
    SELECT id FROM holdfast_runs WHERE job = n.value AND created_at >= ?2 AND created_at < ?3
        ORDER BY created_at DESC, id DESC LIMIT ?4)
ORDER BY r.created_at DESC, r.id DESC`

	intervalsBefore = `
SELECT r.id, r.job, r.scheduled_at, r.state, r.reason, r.replica, r.created_at, r.started_at,
    r.finished_at, r.retry_waits, r.blocker
FROM json_each(?1) n CROSS JOIN holdfast_runs r ON r.id IN (
    SELECT id FROM holdfast_runs WHERE job = n.value AND created_at < ?2
        ORDER BY created_at DESC, id DESC LIMIT ?3)
WHERE r.finished_at >= ?2 OR r.state IN ('waiting', 'running')
ORDER BY r.created_at DESC, r.id DESC`

	sumWaits = `
SELECT job, holder, resource, count(*), sum(state NOT IN ('running', 'waiting')),
    sum(until - since), max(until - since), max(until)
FROM (SELECT * FROM holdfast_wait_history WHERE until >= ?1 AND until < ?2 ORDER BY until DESC
    LIMIT ?3)
GROUP BY job, holder, resource ORDER BY sum(until - since) DESC LIMIT ?4`
)

// JobRequests implements storage.Contention.
func (s *Store) JobRequests(ctx context.Context) ([]storage.JobRequests, error) {
	var listed []storage.JobRequests
	err := each(ctx, s.readers, listJobRequests, nil, func(rows *sql.Rows) error {
		var name, resources string
		if err := rows.Scan(&name, &resources); err != nil {
			return err
		}
		requests, err := decodeRequests(resources)
		var named []locking.Request
		for _, r := range requests {
			if r.Resource.Kind() != locking.KindJob {
				named = append(named, r)
			}
		}
		if len(named) > 0 {
			listed = append(listed, storage.JobRequests{Job: name, Requests: named})
		}
		return err
	})
	return listed, wrap("list requests of jobs", err)
}

// RunIntervals implements storage.Contention.
func (s *Store) RunIntervals(ctx context.Context,
	f storage.RunIntervalFilter) ([]storage.RunInterval, error) {
	encoded, err := encode(f.Jobs)
	if err != nil {
		return nil, wrap("list run intervals", err)
	}
	within, err := s.intervals(ctx, intervalsWithin, encoded, micros(f.From), micros(f.Until),
		min(max(f.Each, 1), storage.MaxRunIntervals))
	if err != nil {
		return nil, wrap("list run intervals", err)
	}
	before, err := s.intervals(ctx, intervalsBefore, encoded, micros(f.From),
		storage.RunIntervalsBefore)
	return append(within, before...), wrap("list run intervals", err)
}

func (s *Store) intervals(ctx context.Context, query string,
	args ...any) (intervals []storage.RunInterval, err error) {
	err = each(ctx, s.readers, query, args, func(rows *sql.Rows) error {
		var v storage.RunInterval
		var scheduledAt, created int64
		var started, finished sql.NullInt64
		var blocker, waits *string
		if err := rows.Scan(&v.Run, &v.Job, &scheduledAt, &v.State, &v.Reason, &v.Replica, &created,
			&started, &finished, &waits, &blocker); err != nil {
			return err
		}
		v.ScheduledAt, v.CreatedAt, v.StartedAt, v.FinishedAt = fromMicros(scheduledAt),
			fromMicros(created), fromNullMicros(started), fromNullMicros(finished)
		var err error
		if v.RetryWaits, err = retryWaitsOf(waits); err != nil {
			return fmt.Errorf("run %s: %w", v.Run, err)
		}
		if blocker != nil {
			if err := json.Unmarshal([]byte(*blocker), &v.BlockedBy); err != nil {
				return fmt.Errorf("blocker of run %s: %w", v.Run, err)
			}
		}
		intervals = append(intervals, v)
		return nil
	})
	return intervals, err
}

// WaitSummaries implements storage.Contention.
func (s *Store) WaitSummaries(ctx context.Context, from,
	until time.Time) ([]storage.WaitSummary, error) {
	var parts []storage.WaitSummary
	// One resource may be written in two ways, hence twice as many rows.
	args := []any{micros(from), micros(until), storage.MaxTallied, 2 * storage.MaxBatch}
	err := each(ctx, s.readers, sumWaits, args, func(rows *sql.Rows) error {
		var b storage.WaitSummary
		var waited, longest, last int64
		err := rows.Scan(&b.Job, &b.Holder, &b.Resource, &b.Times, &b.NotRun, &waited, &longest,
			&last)
		b.Waited, b.Longest, b.Last = time.Duration(waited)*time.Microsecond,
			time.Duration(longest)*time.Microsecond, fromMicros(last)
		parts = append(parts, b)
		return err
	})
	return storage.MergeWaitSummaries(parts), wrap("sum waits", err)
}

// Typical implements storage.Contention.
func (s *Store) Typical(ctx context.Context, names []string) (map[string]storage.Typical, error) {
	outcomes, err := s.Outcomes(ctx, storage.AllOutcomesOf(names), storage.TypicalOf)
	if err != nil {
		return nil, err
	}
	return storage.TypicalOutcomes(outcomes), nil
}
