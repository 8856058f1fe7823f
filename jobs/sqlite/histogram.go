package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	readTallies = `
SELECT ?1 + (quarter - ?1) / ?3 * ?3 AS part, state, delay, sum(runs) FROM holdfast_tallies
WHERE quarter >= ?1 AND quarter < ?2 GROUP BY part, state, delay`

	countNewest = `
SELECT state, count(*) FROM (SELECT state FROM holdfast_runs ORDER BY created_at DESC, id DESC
    LIMIT ?1) GROUP BY state`

	sumTallies = `SELECT state, sum(runs) FROM holdfast_tallies GROUP BY state`
)

// Histogram implements storage.Histograms.
func (s *Store) Histogram(ctx context.Context, from, until time.Time,
	part time.Duration) ([]storage.Quarter, error) {
	var parts []storage.Tally
	args := []any{micros(storage.HistogramStart(from)),
		micros(storage.HistogramEnd(from, until)), part.Microseconds()}
	err := each(ctx, s.readers, readTallies, args, func(rows *sql.Rows) error {
		var p storage.Tally
		var quarter int64
		err := rows.Scan(&quarter, &p.State, &p.Delay, &p.Runs)
		p.Quarter = fromMicros(quarter)
		parts = append(parts, p)
		return err
	})
	return storage.MergeTallies(parts), wrap("read tallies", err)
}

// EndedRuns implements storage.Histograms.
func (s *Store) EndedRuns(ctx context.Context, exactly int) (storage.EndedRuns, error) {
	newest, all, err := s.runsByState(ctx, countNewest, exactly+1)
	if err != nil || all <= exactly {
		return storage.NewEndedRuns(newest, false), wrap("count runs", err)
	}
	tallied, _, err := s.runsByState(ctx, sumTallies)
	return storage.NewEndedRuns(tallied, true), wrap("count runs", err)
}

// runsByState returns the result of a query for numbers of runs by state, and their sum.
func (s *Store) runsByState(ctx context.Context, query string,
	args ...any) (byState map[jobs.State]int, all int, err error) {
	byState = make(map[jobs.State]int)
	err = each(ctx, s.readers, query, args, func(rows *sql.Rows) error {
		var state jobs.State
		var runs int
		err := rows.Scan(&state, &runs)
		byState[state] += runs
		all += runs
		return err
	})
	return byState, all, err
}
