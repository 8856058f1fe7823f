package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	listJobRequests = `
SELECT j.name, d.resources FROM holdfast.jobs j
    JOIN holdfast.definitions d ON d.job = j.name AND d.version = j.version
WHERE d.resources <> '[]' ORDER BY j.name`

	intervalColumns = `r.id, r.job, r.scheduled_at, r.state, r.reason, r.replica, r.created_at,
    r.started_at, r.finished_at, r.retry_waits, r.blocker`

	// runIntervals scans the index of each job from the end of the interval, and then reads the few
	// runs that were created before it.
	runIntervals = `
SELECT ` + intervalColumns + `
FROM unnest($1::text[]) n (job) CROSS JOIN LATERAL (
    SELECT * FROM (
        SELECT * FROM holdfast.runs WHERE job = n.job COLLATE "C" AND created_at >= $2
            AND created_at < $3 AND ` + byCreation + `
            ORDER BY created_at DESC, id DESC LIMIT %d) within
  UNION ALL
    SELECT * FROM (
        SELECT * FROM holdfast.runs WHERE job = n.job COLLATE "C" AND created_at < $2
            AND ` + byCreation + ` ORDER BY created_at DESC, id DESC LIMIT %d) before
    WHERE before.finished_at >= $2 OR before.state IN ('waiting', 'running')) r
ORDER BY r.created_at DESC, r.id DESC`

	sumWaits = `
SELECT job, holder, resource, count(*), count(*) FILTER (WHERE state NOT IN ('running', 'waiting')),
    sum(until - since), max(until - since), max(until)
FROM (SELECT * FROM holdfast.wait_history WHERE until >= $1 AND until < $2 ORDER BY until DESC
    LIMIT %d) b
GROUP BY job, holder, resource ORDER BY sum(until - since) DESC LIMIT %d`

	typicalOf = `
SELECT n.job, count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY r.took),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY r.took)
FROM unnest($1::text[]) n (job) CROSS JOIN LATERAL (
    SELECT finished_at - started_at - coalesce((
        SELECT sum(coalesce(l.retry_waits[i + 1], l.finished_at) - l.retry_waits[i])
        FROM generate_subscripts(l.retry_waits, 1) i WHERE i %% 2 = 1), '0') AS took FROM (
        SELECT * FROM holdfast.runs WHERE job = n.job COLLATE "C" AND backfill IS NULL
            AND ` + byCreation + ` ORDER BY created_at DESC, id DESC LIMIT %d) l
    WHERE started_at IS NOT NULL AND finished_at IS NOT NULL) r
GROUP BY n.job`

	addRestart = `
INSERT INTO holdfast.restarts (server, started_at, noticed_at, noticed_by)
    VALUES ($1, $2, clock_timestamp(), $3) ON CONFLICT DO NOTHING`

	listRestarts = `
SELECT server, started_at, noticed_at, noticed_by FROM holdfast.restarts
    WHERE noticed_at >= $1 AND noticed_at < $2
ORDER BY noticed_at, server LIMIT %d`
)

var _ storage.Restarts = (*Store)(nil)

// JobRequests implements storage.Contention.
func (s *Store) JobRequests(ctx context.Context) ([]storage.JobRequests, error) {
	rows, err := s.views.Query(ctx, listJobRequests)
	if err != nil {
		return nil, wrap("list requests of jobs", err)
	}
	var listed []storage.JobRequests
	var name string
	var resources []byte
	_, err = pgx.ForEachRow(rows, []any{&name, &resources}, func() error {
		requests, err := parseRequests(resources)
		if named := withoutJobs(requests); len(named) > 0 {
			listed = append(listed, storage.JobRequests{Job: name, Requests: named})
		}
		return err
	})
	return listed, wrap("list requests of jobs", err)
}

func withoutJobs(requests []locking.Request) []locking.Request {
	named := make([]locking.Request, 0, len(requests))
	for _, r := range requests {
		if r.Resource.Kind() != locking.KindJob {
			named = append(named, r)
		}
	}
	return named
}

// RunIntervals implements storage.Contention.
func (s *Store) RunIntervals(ctx context.Context,
	f storage.RunIntervalFilter) ([]storage.RunInterval, error) {
	rows, err := s.views.Query(ctx,
		fmt.Sprintf(runIntervals, min(max(f.Each, 1), storage.MaxRunIntervals),
			storage.RunIntervalsBefore),
		f.Jobs, f.From, f.Until)
	if err != nil {
		return nil, wrap("list run intervals", err)
	}
	intervals, err := pgx.CollectRows(rows,
		func(row pgx.CollectableRow) (v storage.RunInterval, err error) {
			var blocker []byte
			var waits []time.Time
			err = row.Scan(&v.Run, &v.Job, &v.ScheduledAt, &v.State, &v.Reason, &v.Replica,
				&v.CreatedAt, &v.StartedAt, &v.FinishedAt, &waits, &blocker)
			if err != nil {
				return v, err
			}
			v.ScheduledAt, v.CreatedAt, v.StartedAt, v.FinishedAt = v.ScheduledAt.UTC(),
				v.CreatedAt.UTC(), utc(v.StartedAt), utc(v.FinishedAt)
			v.RetryWaits = storage.NewRetryWaits(waits)
			v.BlockedBy, err = parseBlocker(blocker)
			return v, err
		})
	return intervals, wrap("list run intervals", err)
}

// WaitSummaries implements storage.Contention.
func (s *Store) WaitSummaries(ctx context.Context, from,
	until time.Time) ([]storage.WaitSummary, error) {
	// One resource may be written in two ways, hence twice as many rows.
	query := fmt.Sprintf(sumWaits, storage.MaxTallied, 2*storage.MaxBatch)
	rows, err := s.views.Query(ctx, query, from, until)
	if err != nil {
		return nil, wrap("sum waits", err)
	}
	parts, err := pgx.CollectRows(rows,
		func(row pgx.CollectableRow) (b storage.WaitSummary, err error) {
			err = row.Scan(&b.Job, &b.Holder, &b.Resource, &b.Times, &b.NotRun, &b.Waited,
				&b.Longest,
				&b.Last)
			b.Last = b.Last.UTC()
			return b, err
		})
	return storage.MergeWaitSummaries(parts), wrap("sum waits", err)
}

// Typical implements storage.Contention.
func (s *Store) Typical(ctx context.Context, names []string) (map[string]storage.Typical, error) {
	rows, err := s.views.Query(ctx, fmt.Sprintf(typicalOf, storage.TypicalOf), names)
	if err != nil {
		return nil, wrap("read typical durations", err)
	}
	found := make(map[string]storage.Typical, len(names))
	var name string
	var t storage.Typical
	_, err = pgx.ForEachRow(rows, []any{&name, &t.Runs, &t.Median, &t.Long}, func() error {
		found[name] = t
		return nil
	})
	return found, wrap("read typical durations", err)
}

// NoteRestart implements storage.Restarts.
func (s *Store) NoteRestart(ctx context.Context, r storage.Restart) error {
	_, err := s.pool.Exec(ctx, addRestart, r.Server, r.StartedAt, r.NoticedBy)
	return wrap("record restart", err)
}

// Restarts implements storage.Restarts.
func (s *Store) Restarts(ctx context.Context, from, until time.Time) ([]storage.Restart, error) {
	rows, err := s.views.Query(ctx, fmt.Sprintf(listRestarts, storage.MaxBatch), from, until)
	if err != nil {
		return nil, wrap("list restarts", err)
	}
	found, err := pgx.CollectRows(rows,
		func(row pgx.CollectableRow) (r storage.Restart, err error) {
			err = row.Scan(&r.Server, &r.StartedAt, &r.NoticedAt, &r.NoticedBy)
			r.StartedAt, r.NoticedAt = r.StartedAt.UTC(), r.NoticedAt.UTC()
			return r, err
		})
	return found, wrap("list restarts", err)
}
