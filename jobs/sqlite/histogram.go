package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const readTallies = `
SELECT quarter, state, delay, runs FROM holdfast_tallies WHERE quarter >= ?1 AND quarter < ?2`

// Histogram returns the numbers of ended runs by quarter of an hour.
func (s *Store) Histogram(ctx context.Context, from, until time.Time) ([]storage.Quarter, error) {
	var parts []storage.Tallied
	args := []any{micros(from), micros(storage.HistogramEnd(from, until))}
	err := each(ctx, s.readers, readTallies, args, func(rows *sql.Rows) error {
		var p storage.Tallied
		var quarter int64
		err := rows.Scan(&quarter, &p.State, &p.Delay, &p.Runs)
		p.Quarter = fromMicros(quarter)
		parts = append(parts, p)
		return err
	})
	return storage.MergeTallied(parts), wrap("read tallies", err)
}
