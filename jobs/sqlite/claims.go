package sqlite

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const claimsOfRuns = `
SELECT r.id, r.job, r.backfill IS NOT NULL FROM json_each(?1) q CROSS JOIN holdfast_claims c
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
	found, jobs := make(map[uuid.UUID]storage.RunClaim), make(map[uuid.UUID]string)
	var names []string
	err = each(ctx, s.readers, claimsOfRuns, []any{encoded}, func(rows *sql.Rows) error {
		var run uuid.UUID
		var job string
		claim := storage.RunClaim{Exists: true}
		err := rows.Scan(&run, &job, &claim.Backfill)
		found[run], jobs[run], names = claim, job, append(names, job)
		return err
	})
	held := heldBack{groups: map[string]string{}}
	if err == nil {
		err = held.load(ctx, s.readers, names)
	}
	if err != nil {
		return nil, wrap("look for claims", err)
	}
	for i, run := range runs {
		claims[i] = found[run]
		claims[i].Paused = claims[i].Exists && held.pause(jobs[run]) != nil
	}
	return claims, nil
}
