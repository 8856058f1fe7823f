package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	lostReplica = `
SELECT replica FROM holdfast.sessions
WHERE id = $1 AND ended_at IS NOT NULL AND NOT stopped AND NOT locks`

	removeReplica = `
UPDATE holdfast.sessions SET removed = true WHERE id = ANY(ARRAY(
    SELECT s.id FROM holdfast.sessions s
    WHERE s.replica = $1 AND s.ended_at IS NOT NULL AND NOT s.stopped AND NOT s.removed
        AND NOT s.locks
    ORDER BY s.id FOR NO KEY UPDATE))`
)

// RemoveReplica implements storage.Actions.
func (s *Store) RemoveReplica(ctx context.Context, a storage.Action, session uuid.UUID) error {
	const action = "remove_replica"
	lost := fmt.Errorf("lost session %s: %w", session, storage.ErrNotFound)
	var replica string
	if err := s.pool.QueryRow(ctx, lostReplica, session).Scan(&replica); err == pgx.ErrNoRows {
		return wrap(action, lost)
	} else if err != nil {
		return wrap(action, err)
	}
	return s.action(ctx, a, action, "replica "+replica, nil,
		func(ctx context.Context, d *actionTx) error {
			d.detail = map[string]any{"session": session}
			tag, err := d.Exec(ctx, removeReplica, replica)
			if err == nil && tag.RowsAffected() == 0 {
				err = lost
			}
			return err
		})
}
