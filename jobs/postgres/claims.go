package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// claimsOfRuns returns the runs that have a claim, and whether each is of a backfill.
const claimsOfRuns = `
SELECT q.run, r.backfill IS NOT NULL FROM unnest($1::uuid[]) AS q (run)
CROSS JOIN LATERAL (SELECT FROM holdfast.claims c WHERE c.run = q.run OFFSET 0) c
CROSS JOIN LATERAL (SELECT r.backfill FROM holdfast.runs r WHERE r.id = q.run OFFSET 0) r`

// Claims implements storage.Firings.
func (s *Store) Claims(ctx context.Context, runs []uuid.UUID) ([]storage.RunClaim, error) {
	claims := make([]storage.RunClaim, len(runs))
	if len(runs) == 0 {
		return claims, nil
	}
	asked := make([]rawID, len(runs))
	for i, run := range runs {
		asked[i] = run
	}
	found := make(map[uuid.UUID]storage.RunClaim, len(runs))
	err := s.pipeline(ctx, "look for claims", func(b *pgx.Batch) {
		b.Queue(claimsOfRuns, asked).Query(func(rows pgx.Rows) error {
			var run uuid.UUID
			claim := storage.RunClaim{Exists: true}
			_, err := pgx.ForEachRow(rows, []any{&run, &claim.Backfill}, func() error {
				found[run] = claim
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	for i, run := range runs {
		claims[i] = found[run]
	}
	return claims, nil
}
