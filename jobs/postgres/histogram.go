package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// readTallies adds up the quarters of each part, because a page that reads a row for each
	// quarter of a month is slow.
	readTallies = `
SELECT $1::timestamptz + floor(date_part('epoch', quarter - $1::timestamptz) / $3::float8)
    * $3::float8 * interval '1 second' AS part, state, delay, sum(runs)::bigint FROM (
    SELECT * FROM holdfast.tallies WHERE quarter >= $1 AND quarter < $2
    UNION ALL
    SELECT * FROM holdfast.tally_changes WHERE quarter >= $1 AND quarter < $2) t
GROUP BY part, state, delay HAVING sum(runs) <> 0`

	// countNewest reads the newest runs. The oldest ones may lie behind many deleted rows.
	countNewest = `
SELECT state, count(*) FROM (SELECT state FROM holdfast.runs WHERE ` + byCreation + `
    ORDER BY created_at DESC, id DESC LIMIT $1) r GROUP BY state`

	sumTallies = `
SELECT state, sum(runs)::bigint FROM (
    SELECT state, runs FROM holdfast.tallies
    UNION ALL
    SELECT state, runs FROM holdfast.tally_changes) t GROUP BY state`

	// estimateRuns is how the planner estimates the rows of a table: the rows for each page at the
	// last VACUUM or ANALYZE, times the current number of pages. -1: it does not know. A table that
	// was small then may have been almost empty, so its rows for each page say nothing.
	estimateRuns = `
SELECT CASE WHEN reltuples >= 0 AND relpages >= 10 THEN (reltuples / relpages
    * (pg_relation_size(oid) / current_setting('block_size')::int))::bigint ELSE -1 END
FROM pg_class WHERE oid = 'holdfast.runs'::regclass`

	// foldTallies moves rows from tally_changes to the tallies, at most every 30 s in a cluster. It
	// also reads deleted rows until autovacuum removes them, which a long transaction prevents. So
	// it must be rare.
	foldTallies = `
WITH turn AS (
    INSERT INTO holdfast.turns AS o (work, session, until)
    SELECT 'tallies', $1, t + interval '30 seconds' FROM clock_timestamp() t
    WHERE (SELECT until > clock_timestamp() FROM holdfast.turns
        WHERE work = 'tallies') IS NOT TRUE
    ON CONFLICT (work) DO UPDATE SET session = excluded.session, until = excluded.until
    WHERE o.until <= clock_timestamp()
    RETURNING true AS taken
), gone AS (
    DELETE FROM holdfast.tally_changes WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM holdfast.tally_changes WHERE (SELECT taken FROM turn) LIMIT $2))
    RETURNING quarter, state, delay, runs
)
INSERT INTO holdfast.tallies AS t (quarter, state, delay, runs)
SELECT quarter, state, delay, sum(runs) FROM gone GROUP BY quarter, state, delay
ORDER BY quarter, state, delay
ON CONFLICT (quarter, state, delay) DO UPDATE SET runs = t.runs + excluded.runs`

	// It locks the rows in the order of foldTallies.
	pruneTallies = `
DELETE FROM holdfast.tallies WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM holdfast.tallies WHERE quarter < now() - $1::interval
    ORDER BY quarter, state, delay LIMIT $2 FOR UPDATE))`
)

// maxFolded bounds the rows of one foldTallies, which take about 0.2 s. In 30 s a cluster adds
// fewer, because a statement that ends many runs adds few rows.
const maxFolded = 50_000

// foldTallies adds the changes of tallies to them, unless a replica did in the last 30 s. The
// sweep's id stands for the session that has the turn.
func (s *Store) foldTallies(ctx context.Context, sweep uuid.UUID) error {
	return s.pipeline(ctx, "fold tallies", func(b *pgx.Batch) {
		b.Queue(foldTallies, sweep, maxFolded)
	})
}

// Histogram implements storage.Histograms.
func (s *Store) Histogram(ctx context.Context, from, until time.Time,
	part time.Duration) ([]storage.Quarter, error) {
	rows, err := s.views.Query(ctx, readTallies, storage.HistogramStart(from),
		storage.HistogramEnd(from, until), part.Seconds())
	if err != nil {
		return nil, wrap("read tallies", err)
	}
	parts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storage.Tally])
	return storage.MergeTallies(parts), wrap("read tallies", err)
}

// EndedRuns implements storage.Histograms. The tallies also count runs of triggers that were pruned
// before the others. If the planner expects much fewer runs in the table, the tallies are not used.
// Its estimate is wrong if it is at most exactly, because more runs were counted: the last ANALYZE
// came just after many runs were deleted.
func (s *Store) EndedRuns(ctx context.Context, exactly int) (storage.EndedRuns, error) {
	newest, all, err := s.runsByState(ctx, countNewest, exactly+1)
	if err != nil || all <= exactly {
		return storage.NewEndedRuns(newest, false), wrap("count runs", err)
	}
	tallied, all, err := s.runsByState(ctx, sumTallies)
	if err != nil {
		return storage.EndedRuns{}, wrap("count runs", err)
	}
	var planned int
	if err := s.views.QueryRow(ctx, estimateRuns).Scan(&planned); err != nil {
		return storage.EndedRuns{}, wrap("estimate runs", err)
	}
	if planned > exactly && planned < all/2 {
		return storage.EndedRuns{Runs: planned, Estimated: true}, nil
	}
	return storage.NewEndedRuns(tallied, true), nil
}

// runsByState returns the result of a query for numbers of runs by state, and their sum.
func (s *Store) runsByState(ctx context.Context, query string,
	args ...any) (byState map[jobs.State]int, all int, err error) {
	rows, err := s.views.Query(ctx, query, args...)
	if err != nil {
		return nil, 0, err
	}
	byState = make(map[jobs.State]int)
	var state jobs.State
	var runs int
	_, err = pgx.ForEachRow(rows, []any{&state, &runs}, func() error {
		byState[state] += runs
		all += runs
		return nil
	})
	return byState, all, err
}
