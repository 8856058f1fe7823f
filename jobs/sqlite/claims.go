package sqlite

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const claimsOfRuns = `
SELECT r.id, r.backfill IS NOT NULL FROM json_each(?1) q CROSS JOIN holdfast_claims c
ON c.run = q.value CROSS JOIN holdfast_runs r ON r.id = c.run`

// Claims implements storage.Firings.
func (s *Store) Claims(ctx context.Context, runs []uuid.UUID) ([]storage.RunClaim, error) {
	claims := make([]storage.RunClaim, len(runs))
	if len(runs) == 0 {
		return claims, nil
	}
	encoded, err := encode(runs)
	if err != nil {
		return nil, err
	}
	found := make(map[uuid.UUID]storage.RunClaim, len(runs))
	err = each(ctx, s.readers, claimsOfRuns, []any{encoded}, func(rows *sql.Rows) error {
		var run uuid.UUID
		claim := storage.RunClaim{Exists: true}
		err := rows.Scan(&run, &claim.Backfill)
		found[run] = claim
		return err
	})
	if err != nil {
		return nil, wrap("look for claims", err)
	}
	for i, run := range runs {
		claims[i] = found[run]
	}
	return claims, nil
}
