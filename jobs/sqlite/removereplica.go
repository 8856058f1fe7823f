package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	lostReplica = `SELECT replica FROM holdfast_sessions
		WHERE id = ?1 AND ended_at IS NOT NULL AND NOT stopped`

	removeReplica = `UPDATE holdfast_sessions SET removed = 1
		WHERE replica = ?1 AND ended_at IS NOT NULL AND NOT stopped AND NOT removed`
)

// RemoveReplica implements storage.Actions.
func (s *Store) RemoveReplica(ctx context.Context, a storage.Action, session uuid.UUID) error {
	const action = "remove_replica"
	lost := fmt.Errorf("lost session %s: %w", session, storage.ErrNotFound)
	var replica string
	err := s.readers.QueryRowContext(ctx, lostReplica, session).Scan(&replica)
	if errors.Is(err, sql.ErrNoRows) {
		err = lost
	}
	if err != nil {
		return wrap(action, err)
	}
	return s.action(ctx, a, action, "replica "+replica, nil, func(d *actionTx) error {
		d.detail = map[string]any{"session": session}
		result, err := d.ExecContext(ctx, removeReplica, replica)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return lost
	})
}
