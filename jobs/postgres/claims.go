package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// claimsOfRuns returns the runs that have a claim, whether each is of a backfill, and whether a
// pause covers its job. Usually there is no pause, and then no job's group is looked up.
const claimsOfRuns = `
WITH ` + currentPauses + `
SELECT q.run, q.backfill, EXISTS (SELECT FROM active_pauses p WHERE p.kind = 'all'
    OR p.kind = 'job' AND p.name = q.job COLLATE "C"
    OR p.kind = 'group' AND p.name = (` + activeGroup + `) COLLATE "C")
FROM (
    SELECT a.run, r.job, r.backfill IS NOT NULL AS backfill FROM unnest($1::uuid[]) AS a (run)
    CROSS JOIN LATERAL (SELECT FROM holdfast.claims c WHERE c.run = a.run OFFSET 0) c
    CROSS JOIN LATERAL (SELECT r.job, r.backfill FROM holdfast.runs r
        WHERE r.id = a.run OFFSET 0) r) q`

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
			into := []any{&run, &claim.Backfill, &claim.Paused}
			_, err := pgx.ForEachRow(rows, into, func() error {
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
