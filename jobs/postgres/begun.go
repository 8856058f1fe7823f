package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// begunFirings returns the places, from 1, of the scheduled firings that have a run.
const begunFirings = `
SELECT q.place FROM unnest($1::text[], $2::timestamptz[], $3::int[]) WITH ORDINALITY
    AS q (job, scheduled_at, recovery, place)
CROSS JOIN LATERAL (SELECT FROM holdfast.runs r WHERE r.job = q.job COLLATE "C"
    AND r.scheduled_at = q.scheduled_at AND r.recovery = q.recovery AND r.key = '' OFFSET 0) r`

// Begun implements storage.Firings.
func (s *Store) Begun(ctx context.Context, firings []storage.Firing) ([]bool, error) {
	n := len(firings)
	begun := make([]bool, n)
	if n == 0 {
		return begun, nil
	}
	names, times, recoveries := make([]string, n), make([]time.Time, n), make([]int, n)
	for i, f := range firings {
		names[i], times[i], recoveries[i] = f.Job, f.ScheduledAt, f.Recovery
	}
	err := s.pipeline(ctx, "look for begun firings", func(b *pgx.Batch) {
		b.Queue(begunFirings, names, times, recoveries).Query(func(rows pgx.Rows) error {
			var place int
			_, err := pgx.ForEachRow(rows, []any{&place}, func() error {
				begun[place-1] = true
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return begun, nil
}
