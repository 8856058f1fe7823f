package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const readTallies = `
SELECT ?1 + (quarter - ?1) / ?3 * ?3 AS part, state, delay, sum(runs) FROM holdfast_tallies
WHERE quarter >= ?1 AND quarter < ?2 GROUP BY part, state, delay`

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
