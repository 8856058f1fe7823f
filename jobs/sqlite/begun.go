package sqlite

import (
	"context"
	"database/sql"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Begun implements storage.Firings.
func (s *Store) Begun(ctx context.Context, firings []storage.Firing) ([]bool, error) {
	begun := make([]bool, len(firings))
	if len(firings) == 0 {
		return begun, nil
	}
	wanted := make([]firing, len(firings))
	for i, f := range firings {
		wanted[i] = firingOf(f)
	}
	encoded, err := encode(wanted)
	if err != nil {
		return nil, err
	}
	taken := map[firing]bool{}
	err = each(ctx, s.readers, takenFirings, []any{encoded}, func(rows *sql.Rows) error {
		var f firing
		err := rows.Scan(&f.Job, &f.ScheduledAt, &f.Key, &f.Recovery)
		taken[f] = true
		return err
	})
	if err != nil {
		return nil, wrap("look for begun firings", err)
	}
	for i, f := range wanted {
		begun[i] = taken[f]
	}
	return begun, nil
}
